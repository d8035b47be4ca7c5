//! The pages of the site, asked in process beside a whole switch.

mod approval_tests;
mod audit_tests;
mod books_world;
mod cards_tests;
mod company_world;
mod consent_tests;
mod dimensions_tests;
mod many_tests;
mod meanwhile_tests;
mod member_tests;
mod overview_tests;
mod pages;
mod password_tests;
mod people_tests;
mod requisition_tests;
mod rights_tests;
mod roles_world;
mod second_factor_tests;
mod shared_card_tests;
mod sign_in_tests;
mod site_world;
mod statements_tests;
mod transaction_outcome_tests;
mod transactions_tests;
mod visitor_tests;
mod webhooks_tests;
