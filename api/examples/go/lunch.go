// Creates a card, buys with it, receives the webhook, and handles a decline. Go 1.19, no modules.
package main

import (
	"bytes"
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
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	var endpoint struct{ ID, Secret string }
	address := object{"delivery_url": fmt.Sprintf("http://%s/hooks", listener.Addr())}
	must(ask("POST", "/v1/webhook-endpoints", address, token, &endpoint))
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(endpoint.Secret, "whsec_"))
	must(err)
	hooks := &receiver{secret, make(chan event, 100)}
	go func() { log.Fatal(http.Serve(listener, hooks)) }()
	return endpoint.ID, hooks.events
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
	endpoint, events := receive()
	var made card
	must(ask("POST", "/v1/cards", newCard("Lunches", 50), token, &made))
	fmt.Printf("card: %s\n", made.Description)

	bought := buy(made, 24.50)
	for event := range events {
		if event.Transaction.ID != bought.TransactionID {
			continue
		}
		var transaction struct {
			State  string
			Amount float64
		}
		must(ask("GET", "/v1/transactions/"+event.Transaction.ID, nil, token, &transaction))
		fmt.Printf("webhook: %s, %s %.2f\n", event.Event, transaction.State, transaction.Amount)
		break
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
	must(ask("DELETE", "/v1/webhook-endpoints/"+endpoint, nil, token, nil))
}
