package search

import (
	"slices"
	"testing"
)

func TestRank(t *testing.T) {
	x := New(catalog)
	for _, c := range []struct{ request, want string }{
		{"I would like to open a new issue about the broken build in our repository", "create_issue"},
		{"what does bitcoin cost right now, the last price please", "get_price"},
		{"Please store this file in the bucket", "S3.putObject"},
		{"send a message by mail to my colleagues", "sendEmail"},
		{"downloading web pages", "HTTPFetch"},
	} {
		got := names(x.Rank(c.request, 5, nil))
		if len(got) == 0 || got[0] != c.want {
			t.Errorf("Rank(%q) = %q, want first %q", c.request, got, c.want)
		}
	}
}

func TestRankReadsArguments(t *testing.T) {
	x := New([]Doc{
		{Name: "other"},
		{Name: "lookup", Text: "Looks up a record.", Args: []Arg{{"iban", "Bank account number of the customer"}}},
	})
	for _, request := range []string{"find the customer by IBAN", "which bank account"} {
		if got := x.Rank(request, 5, nil); len(got) != 1 || got[0].Doc != 1 {
			t.Errorf("Rank(%q) = %v, want the tool with the argument", request, got)
		}
	}
}

func TestRankScoresEachSentence(t *testing.T) {
	x := New(catalog)
	got := names(x.Rank("First, list the issues of the repository github. Then pay the invoice. Finally, show the candles of the market.", 5, nil))
	for _, want := range []string{"list_issues", "pay_invoice", "get_candles"} {
		if !slices.Contains(got[:3], want) {
			t.Errorf("the first 3 of %q lack %q", got, want)
		}
	}
}

func TestRankWithoutMatchReturnsFind(t *testing.T) {
	x := New(catalog)
	if got := names(x.Rank("serach", 1, nil)); !slices.Equal(got, []string{"search"}) {
		t.Errorf("Rank = %q, want search", got)
	}
	if got := x.Rank("zebra", 5, nil); len(got) > 0 {
		t.Errorf("Rank = %v, want nothing", got)
	}
}

func TestCategories(t *testing.T) {
	x := New([]Doc{{Category: "money"}, {Category: "web", Server: "s"}, {Server: "github"}, {Category: "web"}, {Name: "none"}, {Category: "hidden"}})
	got := x.Categories(func(i int) bool { return i != 5 })
	want := []Category{{"web", 2}, {"github", 1}, {"money", 1}}
	if !slices.Equal(got, want) {
		t.Errorf("Categories = %v, want %v", got, want)
	}
}
