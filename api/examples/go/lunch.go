// Creates a card, buys with it, follows the event, and handles a decline. Go 1.19, no modules.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
)

var (
	url   = os.Getenv("CARDSWITCH_URL")
	token = "Token " + os.Getenv("CARDSWITCH_ACCESS_TOKEN")
	key   = "Bearer " + os.Getenv("CARDSWITCH_NETWORK_KEY")
)

// ApiError is a failed request.
type ApiError struct {
	Code, Message string
	DocURL        string `json:"doc_url"`
}

func (failure *ApiError) Error() string { return failure.Message }

type object = map[string]any

type card struct {
	ID          string
	Description string
	CreatedAt   string `json:"created_at"`
	Allowance   struct{ ID string }
}

type authorization struct {
	Approved      bool
	TransactionID string `json:"transaction_id"`
}

// ask sends a request and reads the answer into it.
func ask(method, path string, body any, authorization string, answer any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, url+path, &sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	if method != http.MethodGet {
		// Repeat a request whose answer is lost with the same key: it takes effect once.
		drawn := make([]byte, 16)
		if _, err := rand.Read(drawn); err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", hex.EncodeToString(drawn))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var failure struct{ Detail ApiError }
		if err := json.NewDecoder(response.Body).Decode(&failure); err != nil {
			return err
		}
		return &failure.Detail
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// buy is what a card network asks at a merchant. Declines are answers, not errors.
func buy(with card, amount float64) authorization {
	body := object{"card_id": with.ID, "amount": amount, "merchant": object{"name": "Corner Bakery", "mcc": "5812"}}
	var answer authorization
	must(ask("POST", "/network/v1/authorizations", body, key, &answer))
	verdict := "declined"
	if answer.Approved {
		verdict = "approved"
	}
	fmt.Printf("%s: %.2f\n", verdict, amount)
	return answer
}

func newCard(description string, budget float64) object {
	allowance := object{"amount": budget, "interval": "weekly"}
	return object{"description": description, "is_virtual": true, "allowance": allowance}
}

func main() {
	var made card
	must(ask("POST", "/v1/cards", newCard("Lunches", 50), token, &made))
	fmt.Printf("card: %s\n", made.Description)

	bought := buy(made, 24.50)
	var events struct {
		Results []struct {
			Event       string
			Transaction struct{ ID string }
		}
	}
	must(ask("GET", "/v1/events?wait_s=20&since="+made.CreatedAt, nil, token, &events))
	for _, event := range events.Results {
		if event.Transaction.ID != bought.TransactionID {
			continue
		}
		var transaction struct {
			State  string
			Amount float64
		}
		must(ask("GET", "/v1/transactions/"+event.Transaction.ID, nil, token, &transaction))
		fmt.Printf("event: %s, %s %.2f\n", event.Event, transaction.State, transaction.Amount)
	}

	declined := buy(made, 100)
	var decision struct {
		LeastChange []struct {
			Rule, Text string
			Change     struct{ To json.Number }
		} `json:"least_change"`
	}
	must(ask("GET", "/v1/transactions/"+declined.TransactionID+"/decision", nil, token, &decision))
	for _, remedy := range decision.LeastChange {
		fmt.Printf("advice: %s\n", remedy.Text)
		if remedy.Rule == "allowance_balance" {
			raised := object{"amount": remedy.Change.To}
			must(ask("PUT", "/v1/allowances/"+made.Allowance.ID, raised, token, &object{}))
		}
	}
	buy(made, 100)

	var refused *ApiError
	if err := ask("POST", "/v1/cards", newCard("Debts", -1), token, &object{}); errors.As(err, &refused) {
		fmt.Printf("refused: %s, see %s%s\n", refused.Code, url, refused.DocURL)
	}
}
