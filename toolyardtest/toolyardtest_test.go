package toolyardtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/toolyardtest"
)

type news interface {
	Headlines(before time.Time) []string
}

type oldNews []string

func (n oldNews) Headlines(time.Time) []string { return n }

// readNews needs a client and the as-of time of the call.
var readNews = toolyard.Define(toolyard.Spec{Name: "read_news", Effects: toolyard.ReadOnly},
	func(_ context.Context, c *toolyard.Call, in struct {
		Limit int `json:"limit" default:"1" maximum:"10"`
	},
	) ([]string, error) {
		client, ok := toolyard.Client[news](c)
		if !ok {
			return nil, toolyard.Errorf(toolyard.NoData, "There is no news here.")
		}
		c.Logger().Info("reading", "asOf", c.AsOf)
		return client.Headlines(c.AsOf)[:in.Limit], nil
	})

func TestExample(t *testing.T) {
	clients := &toolyard.Clients{}
	toolyard.Lend[news](clients, oldNews{"a", "b", "c"})
	res, err := toolyardtest.Call(t, readNews, `{"limit":2}`, &toolyardtest.Options{Clients: clients, Mode: toolyard.Read})
	if err != nil || toolyardtest.Text(res) != "a\nb" {
		t.Error(res, err)
	}
	if _, err := toolyardtest.Call(t, readNews, `{"limit":11}`, nil); toolyard.AsError(err).Code != toolyard.Invalid {
		t.Error(err)
	}
	if _, err := toolyardtest.Call(t, readNews, ``, nil); toolyard.AsError(err).Code != toolyard.NoData {
		t.Error(err)
	}
	if _, err := toolyardtest.Call(t, readNews, ``, &toolyardtest.Options{Clients: clients}); err != nil {
		t.Error(err)
	}
}

func TestQuestionsAreAnswered(t *testing.T) {
	erase := toolyard.Define(toolyard.Spec{Name: "erase"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{Key: "sure", Message: "Erase everything?"})
		return string(reply.Action), err
	})
	for _, action := range []string{"accept", "decline"} {
		res, err := toolyardtest.Call(t, erase, `{}`, &toolyardtest.Options{Answer: func(q toolyard.Question) string {
			if q.Key != "sure" || q.Message != "Erase everything?" {
				t.Error(q)
			}
			return `{"action":"` + action + `"}`
		}})
		if err != nil || toolyardtest.Text(res) != action {
			t.Error(res, err)
		}
	}
	if _, err := toolyardtest.Call(t, erase, `{}`, nil); toolyard.AsError(err).Code != toolyard.MissingCapability {
		t.Error(err)
	}
}

func TestAWriteIsNotCalledInReadMode(t *testing.T) {
	write := toolyard.Define(toolyard.Spec{Name: "w"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
	if _, err := toolyardtest.Call(t, write, `{}`, &toolyardtest.Options{Mode: toolyard.Read}); toolyard.AsError(err).Code != toolyard.UnknownTool {
		t.Error(err)
	}
}

func TestStaticKeepsItsPromises(t *testing.T) {
	toolyardtest.TestSource(t, func(*testing.T) toolyard.Source { return catalog.Static{readNews} })
}

func ExampleText() {
	fmt.Println(toolyardtest.Text(toolyard.Failure("no such city")))
	// Output: no such city
}
