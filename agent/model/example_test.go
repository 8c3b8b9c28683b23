package model_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
)

// An agent is a loop: send the conversation, run the calls and add their answers until a turn has
// no calls.
func Example() {
	script, err := fakemodel.Parse([]byte(`
conversations:
  - turns:
      - {call: [{name: vat_rate, arguments: {country: FR}}]}
      - {say: "VAT in France is {answer:1} percent."}
`))
	if err != nil {
		panic(err)
	}
	server, err := fakemodel.New(fakemodel.Options{Script: script})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	client, err := model.New(model.Options{
		API: model.Anthropic, Model: "claude", Key: fakemodel.Key,
		URL: server.URL, Private: true, // omit both to use the provider
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	request := &model.Request{
		System:   "Answer questions about taxes.",
		Tools:    []model.Function{{Name: "vat_rate", Description: "Returns the VAT rate of a country in percent."}},
		Messages: []model.Message{{Text: "What is the VAT in France?"}},
	}
	for {
		turn, err := client.Turn(context.Background(), request, nil)
		if failed, ok := errors.AsType[*model.Error](err); ok && failed.Kind == model.Refused {
			fmt.Println("the model declined")
			return
		}
		if err != nil {
			panic(err)
		}
		if len(turn.Calls) == 0 {
			fmt.Println(turn.Text)
			return
		}
		var answers []model.Answer
		for _, call := range turn.Calls {
			fmt.Println("call:", call.Name, string(call.Arguments))
			answers = append(answers, model.Answer{ID: call.ID, Text: "20"})
		}
		request.Messages = append(request.Messages, model.Message{Turn: turn}, model.Message{Answers: answers})
	}
	// Output:
	// call: vat_rate {"country":"FR"}
	// VAT in France is 20 percent.
}
