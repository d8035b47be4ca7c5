// Creates a card, buys with it, receives the webhook, and handles a decline. Go 1.19, with generated clients.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	company "lunch/client_company"
	network "lunch/client_network"
)

var (
	url       = os.Getenv("CARDSWITCH_URL")
	ctx       = context.Background()
	companies = companyClient()
	networks  = networkClient()
)

func companyClient() *company.APIClient {
	configuration := company.NewConfiguration()
	configuration.Servers = company.ServerConfigurations{{URL: url}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("CARDSWITCH_ACCESS_TOKEN"))
	return company.NewAPIClient(configuration)
}

func networkClient() *network.APIClient {
	configuration := network.NewConfiguration()
	configuration.Servers = network.ServerConfigurations{{URL: url}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("CARDSWITCH_NETWORK_KEY"))
	return network.NewAPIClient(configuration)
}

// fresh is a key for one change: repeated with the same key, it takes effect once.
func fresh() string {
	drawn := make([]byte, 16)
	must(rand.Read(drawn))
	return hex.EncodeToString(drawn)
}

// must returns what was answered, or ends the program with what failed.
func must[T any](answer T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

// taken is must for the generated clients, which return the response, too.
func taken[T any](answer T, _ *http.Response, err error) T {
	return must(answer, err)
}

type event struct {
	Event       string
	Transaction struct{ ID string }
}

// receiver takes webhooks whose signature is right, each an array of events.
// Source: Standard Webhooks, symmetric signatures.
type receiver struct {
	secret []byte
	events chan event
}

func (receiver *receiver) isSigned(header http.Header, body []byte) bool {
	sent, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return false
	}
	signed := hmac.New(sha256.New, receiver.secret)
	fmt.Fprintf(signed, "%s.%s.%s", header.Get("webhook-id"), header.Get("webhook-timestamp"), body)
	own := "v1," + base64.StdEncoding.EncodeToString(signed.Sum(nil))
	for _, given := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(given), []byte(own)) {
			return true
		}
	}
	return false
}

func (receiver *receiver) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 1<<20))
	var events []event
	if err != nil || !receiver.isSigned(request.Header, body) || json.Unmarshal(body, &events) != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	response.WriteHeader(http.StatusNoContent)
	for _, one := range events {
		receiver.events <- one
	}
}

// receive makes an endpoint for webhooks at this program, and returns its id and what comes there.
func receive() (string, <-chan event) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	address := company.NewWebhookEndpointGiven(fmt.Sprintf("http://%s/hooks", listener.Addr()))
	request := companies.WebhooksAPI.CreateWebhookEndpoint(ctx).WebhookEndpointGiven(*address)
	endpoint := taken(request.IdempotencyKey(fresh()).Execute())
	secret := must(base64.StdEncoding.DecodeString(strings.TrimPrefix(endpoint.GetSecret(), "whsec_")))
	hooks := &receiver{secret, make(chan event, 100)}
	go func() { log.Fatal(http.Serve(listener, hooks)) }()
	return endpoint.GetId(), hooks.events
}

// buy is what a card network asks at a merchant. Declines are answers, not errors.
func buy(card *company.Card, amount float64) *network.AuthorizationAnswer {
	merchant := network.NewMerchantGiven()
	merchant.SetName("Corner Bakery")
	merchant.SetMcc(network.MerchantGivenMcc{String: network.PtrString("5812")})
	purchase := network.NewAuthorizationRequest()
	purchase.SetCardId(card.Id)
	purchase.SetAmount(network.Budget{Float64: &amount})
	purchase.SetMerchant(*merchant)
	answer := taken(networks.PurchasesAPI.Authorize(ctx).AuthorizationRequest(*purchase).Execute())
	verdict := "declined"
	if answer.AuthorizationAnswer.Approved {
		verdict = "approved"
	}
	fmt.Printf("%s: %.2f\n", verdict, amount)
	return answer.AuthorizationAnswer
}

func create(description string, budget float64) (*company.Card, *http.Response, error) {
	allowance := company.NewAllowanceGiven(company.Budget{Float64: &budget})
	allowance.SetInterval(company.INTERVAL_WEEKLY)
	card := company.NewCardGiven(*allowance, description, true)
	return companies.CardsAPI.CreateCard(ctx).CardGiven(*card).IdempotencyKey(fresh()).Execute()
}

func main() {
	endpoint, events := receive()
	card := taken(create("Lunches", 50))
	fmt.Printf("card: %s\n", card.Description)

	bought := buy(card, 24.50)
	for event := range events {
		if event.Transaction.ID != bought.GetTransactionId() {
			continue
		}
		transaction := taken(companies.TransactionsAPI.GetTransaction(ctx, event.Transaction.ID).Execute())
		fmt.Printf("webhook: %s, %s %.2f\n", event.Event, transaction.State, transaction.Amount)
		break
	}

	declined := buy(card, 100)
	decision := taken(companies.TransactionsAPI.GetDecision(ctx, declined.GetTransactionId()).Execute())
	for _, remedy := range decision.LeastChange {
		fmt.Printf("advice: %s\n", remedy.Text)
		if raise := remedy.Change.RaiseChange; raise != nil && remedy.Rule == company.RULENAME_ALLOWANCE_BALANCE {
			raised := company.NewAllowanceUpdate()
			raised.SetAmount(company.Budget{Float64: &raise.To})
			request := companies.AllowancesAPI.UpdateAllowance(ctx, card.Allowance.Id)
			taken(request.AllowanceUpdate(*raised).IdempotencyKey(fresh()).Execute())
		}
	}
	buy(card, 100)

	_, _, err := create("Debts", -1)
	var refused *company.GenericOpenAPIError
	if errors.As(err, &refused) {
		failure := refused.Model().(company.Error)
		fmt.Printf("refused: %s, see %s%s\n", failure.Detail.Code, url, failure.Detail.DocUrl)
	}
	must(companies.WebhooksAPI.DeleteWebhookEndpoint(ctx, endpoint).Execute())
}
