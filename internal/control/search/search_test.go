package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// catalog is the catalog of a yard with a few common servers.
var catalog = []Doc{
	{Name: "create_issue", Title: "Create issue", Text: "Open a new issue in a repository.", Server: "github", Category: "code"},
	{Name: "list_issues", Title: "List issues", Text: "List issues of a repository, newest first.", Server: "github", Category: "code"},
	{Name: "issue_read", Text: "Get an issue, its comments or its labels.", Server: "github", Category: "code"},
	{Name: "create_pull_request", Title: "Open a pull request", Text: "Propose changes of a branch.", Server: "github", Category: "code"},
	{Name: "search_code", Title: "Code search", Text: "Find code in all repositories.", Server: "github", Category: "code"},
	{Name: "search", Title: "Search pages", Text: "Search the workspace by title.", Server: "notion", Category: "documents"},
	{Name: "createPage", Title: "Create a page", Text: "Add a page below a parent.", Server: "notion", Category: "documents"},
	{Name: "query-database", Title: "Query a database", Text: "Run a filter against a database and return pages.", Server: "notion", Category: "documents"},
	{Name: "get_candles", Title: "Candles", Text: "Open, high, low and close of a market by the minute.", Category: "markets"},
	{Name: "get_price", Text: "The last price of a symbol such as BTC.", Category: "markets"},
	{Name: "pay_invoice", Title: "Pay", Text: "Pays an invoice from the account. Reissue is not possible.", Category: "money"},
	{Name: "sendEmail", Title: "Send e-mail", Text: "Send a message through the mail server.", Server: "postmark", Category: "mail"},
	{Name: "S3.putObject", Text: "Store a file in a bucket.", Server: "aws", Category: "storage"},
	{Name: "HTTPFetch", Title: "Fetch a URL", Text: "Download a page of the web.", Category: "web"},
	{Name: "wetter_abfragen", Title: "Wetter für Städte", Text: "Zeigt Temperaturen und Wörter wie Übergröße.", Server: "wetter"},
	{Name: "reissue_card", Text: "Order a card again.", Server: "bank", Category: "money"},
}

func names(hits []Hit) (list []string) {
	for _, h := range hits {
		list = append(list, catalog[h.Doc].Name)
	}
	return list
}

func TestFind(t *testing.T) {
	x := New(catalog)
	for _, c := range []struct {
		query string
		first []string // expected first hits; others may follow
	}{
		{"search", []string{"search", "search_code"}},                                   // the whole name, then its start
		{"SEARCH!", []string{"search", "search_code"}},                                  // neither case nor punctuation matters
		{"issue", []string{"issue_read", "create_issue", "list_issues"}},                // start of the name, then a word in it
		{"create", []string{"create_issue", "createPage", "create_pull_request"}},       // longer names come later
		{"createpage", []string{"createPage"}},                                          // without the word break
		{"create_page", []string{"createPage"}},                                         // with another separator
		{"pullrequest", []string{"create_pull_request"}},                                // inside a name
		{"page", []string{"createPage", "search", "HTTPFetch"}},                         // name, title, text
		{"pages", []string{"createPage", "search"}},                                     // plural of a word
		{"github search", []string{"search_code"}},                                      // includes a server
		{"github", []string{"create_issue", "list_issues"}},                             // all tools of a server
		{"money", []string{"pay_invoice", "reissue_card"}},                              // tools in a category
		{"fetch", []string{"HTTPFetch"}},                                                // names are split by case
		{"putobj", []string{"S3.putObject"}},                                            // inside a name, incomplete
		{"s3", []string{"S3.putObject"}},                                                // digits stay with their letters
		{"btc pri", []string{"get_price"}},                                              // text and name
		{"serach", []string{"search"}},                                                  // two letters swapped
		{"isue", []string{"create_issue"}},                                              // one letter missing
		{"candlles", []string{"get_candles"}},                                           // one letter too many
		{"databese", []string{"query-database"}},                                        // a different letter
		{"stadte", []string{"wetter_abfragen"}},                                         // a different letter that has two bytes
		{"übergr", []string{"wetter_abfragen"}},                                         // start of a word in a text
		{"repository issue", []string{"create_issue", "list_issues", "issue_read"}[:1]}, // in text and name
	} {
		got := names(x.Find(c.query, nil))
		if len(got) < len(c.first) || !slices.Equal(got[:len(c.first)], c.first) {
			t.Errorf("Find(%q) = %q, want first %q", c.query, got, c.first)
		}
	}
}

func TestFindNothing(t *testing.T) {
	x := New(catalog)
	for _, query := range []string{
		"zebra", "create zebra", "xyz", "isx", // too short for a typo
		"serach isuse candlles databese", // too many typos
	} {
		if got := x.Find(query, nil); len(got) > 0 {
			t.Errorf("Find(%q) = %q, want nothing", query, names(got))
		}
	}
	if got := New(nil).Find("a", nil); len(got) > 0 {
		t.Errorf("an empty index found %v", got)
	}
}

func TestEmptyQueryReturnsAllInOrder(t *testing.T) {
	x := New(catalog)
	for _, query := range []string{"", "  ", "_-./"} {
		got := x.Find(query, func(i int) bool { return i%5 == 1 })
		if diff := cmp.Diff([]Hit{{Doc: 1}, {Doc: 6}, {Doc: 11}}, got); diff != "" {
			t.Errorf("Find(%q): %s", query, diff)
		}
	}
}

func TestRareWordsWeighMore(t *testing.T) {
	docs := []Doc{
		{Name: "alpha", Text: "common"},
		{Name: "common_one", Text: "rare"},
		{Name: "rare_two", Text: "common"},
	}
	for i := range 20 {
		docs = append(docs, Doc{Name: fmt.Sprintf("common_%d", i), Text: "nothing"})
	}
	if got := New(docs).Find("common rare", nil); len(got) != 2 || got[0].Doc != 2 {
		t.Errorf("Find = %v, want the one with the rare word in its name first", got)
	}
}

func TestCamel(t *testing.T) {
	for chunk, want := range map[string][]string{
		"getUserID": {"get", "User", "ID"}, "HTTPServer": {"HTTP", "Server"}, "oauth2Token": {"oauth2", "Token"},
		"search": {"search"}, "URL": {"URL"}, "A": {"A"}, "aB": {"a", "B"}, "S3": {"S3"}, "ÄpfelÖl": {"Äpfel", "Öl"},
	} {
		if diff := cmp.Diff(want, camel(chunk)); diff != "" {
			t.Errorf("camel(%q): %s", chunk, diff)
		}
	}
}

// A word with one edit matches every word that starts with the original.
func TestNearly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := []rune(rapid.StringMatching(`[a-dä-ü]{4,10}`).Draw(t, "word"))
		at := rapid.IntRange(0, len(word)-1).Draw(t, "at")
		other := slices.Clone(word)
		switch rapid.IntRange(0, 3).Draw(t, "edit") {
		case 0:
			other[at] = 'ß'
		case 1:
			other = slices.Delete(other, at, at+1)
		case 2:
			other = slices.Insert(other, at, 'ß')
		default:
			if next := at + 1; next < len(other) {
				other[at], other[next] = other[next], other[at]
			}
		}
		rest := rapid.StringMatching(`[a-d]{0,3}`).Draw(t, "rest")
		if !nearly(string(other), string(word)+rest) {
			t.Fatalf("%q is not near %q", string(other), string(word)+rest)
		}
	})
	if nearly("abcd", "axyd") || nearly("abcd", "abx") || nearly("abcd", "") {
		t.Error("words with two edits are near")
	}
}

func docOf(t *rapid.T) Doc {
	text := rapid.OneOf(rapid.StringMatching(`([a-c]{1,3}[ _]?){0,4}`), rapid.String())
	return Doc{
		Name:     rapid.OneOf(rapid.StringMatching(`[a-cA-C]{1,4}([_.-]?[a-cA-C]{1,4}){0,20}`), rapid.String()).Draw(t, "name"),
		Title:    text.Draw(t, "title"),
		Text:     text.Draw(t, "text"),
		Server:   text.Draw(t, "server"),
		Category: text.Draw(t, "category"),
	}
}

func TestEveryDocIsFoundByItsName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(docOf), 1, 30).Draw(t, "docs")
		x := New(docs)
		for i, d := range docs {
			hits := x.Find(d.Name, nil)
			at := slices.IndexFunc(hits, func(h Hit) bool { return h.Doc == i })
			if at < 0 || hits[at].Score != hits[0].Score {
				t.Fatalf("%q is at %d of %v", d.Name, at, hits)
			}
		}
	})
}

// Find returns each matching document once, in order, and the filter does not affect the scores.
func TestFindIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(docOf), 0, 30).Draw(t, "docs")
		query := rapid.OneOf(rapid.StringMatching(`[a-c]{1,5}( [a-c]{1,3}){0,3}`), rapid.String()).Draw(t, "query")
		x := New(docs)
		all := x.Find(query, nil)
		ordered := slices.IsSortedFunc(all, func(a, b Hit) int {
			if a.Score != b.Score {
				return map[bool]int{true: -1, false: 1}[a.Score > b.Score]
			}
			return a.Doc - b.Doc
		})
		if !ordered {
			t.Fatalf("%v is not in order", all)
		}
		seen := make(map[int]bool)
		for _, h := range all {
			if h.Doc < 0 || h.Doc >= len(docs) || seen[h.Doc] {
				t.Fatalf("%d is not a document, or was found twice: %v", h.Doc, all)
			}
			seen[h.Doc] = true
		}
		for i, d := range docs {
			if !seen[i] && matches(d, query) {
				t.Fatalf("%q does not find %+v", query, d)
			}
		}
		odd := func(i int) bool { return i%2 == 1 }
		want := slices.DeleteFunc(slices.Clone(all), func(h Hit) bool { return !odd(h.Doc) })
		if got := x.Find(query, odd); !slices.Equal(got, want) {
			t.Fatalf("kept %v, want %v", got, want)
		}
	})
}

// matches is a simple implementation that checks whether a document contains every word of a query.
func matches(d Doc, query string) bool {
	fields := strings.FieldsFunc(strings.ToLower(strings.Join([]string{d.Name, d.Title, d.Text, d.Server, d.Category}, " ")), isBreak)
	for _, word := range parse(query).words {
		begins := func(field string) bool { return strings.HasPrefix(field, word) }
		if !slices.ContainsFunc(fields, begins) && (len(word) < minInside || !strings.Contains(squeeze(d.Name), word)) {
			return false
		}
	}
	return true
}

func TestInputIsBounded(t *testing.T) {
	x := New([]Doc{{Name: "a", Text: strings.Repeat("x ", maxText/2) + "beyond"}})
	if got := x.Find("beyond", nil); len(got) > 0 {
		t.Error("text beyond its bound is found")
	}
	many := make([]string, 0, 2*maxWords)
	for i := range 2 * maxWords {
		many = append(many, fmt.Sprint("w", i))
	}
	if got := parse(strings.Join(many, " ")).words; len(got) != maxWords {
		t.Errorf("%d words of a query are read", len(got))
	}
	if got := parse(strings.Repeat("ä", maxQuery)); len(got.whole) != maxQuery || len(got.words[0]) != maxWord {
		t.Errorf("%d bytes of a query are read, %d of a word", len(got.whole), len(got.words[0]))
	}
}

func FuzzFind(f *testing.F) {
	f.Add("create_issue", "Create issue", "create is")
	f.Add("HTTPFetch", "ÄÖ\xff\x00", "serach \xff")
	f.Fuzz(func(t *testing.T, name, text, query string) {
		x := New([]Doc{{Name: name, Text: text}, {Name: text, Title: name, Server: query}, {Category: name}})
		if hits := x.Find(query, nil); len(hits) > x.len() {
			t.Fatalf("%d hits", len(hits))
		}
		if hits := x.Find(name, nil); len(hits) == 0 || (hits[0].Doc != 0 && hits[0].Score == 0) {
			t.Fatalf("%q is not found by its name: %v", name, hits)
		}
	})
}

// many returns a catalog of n tools whose texts have the given number of words.
func many(n, words int) []Doc {
	r := rand.New(rand.NewPCG(1, 2))
	verbs := strings.Fields("get list create update delete search query send fetch run read write add remove sync export import check")
	vocabulary := make([]string, 20_000)
	for i := range vocabulary {
		for range 2 + r.IntN(3) {
			vocabulary[i] += string("bcdfghlmnprstvw"[r.IntN(15)]) + string("aeiou"[r.IntN(5)])
		}
	}
	pick := func() string { return vocabulary[int(float64(len(vocabulary))*r.Float64()*r.Float64()*r.Float64())] }
	docs := make([]Doc, n)
	for i := range docs {
		text := make([]string, words)
		for j := range text {
			text[j] = pick()
		}
		docs[i] = Doc{
			Name:   verbs[r.IntN(len(verbs))] + "_" + pick() + "_" + pick(),
			Title:  pick() + " " + pick(),
			Text:   strings.Join(text, " "),
			Server: fmt.Sprint("server", i%200), Category: vocabulary[i%30],
		}
	}
	return docs
}

func BenchmarkNew(b *testing.B) {
	for _, words := range []int{40, 400} {
		docs := many(10_000, words)
		b.Run(fmt.Sprint(words, "words"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				New(docs)
			}
		})
	}
}

// BenchmarkFind searches as a user types: for every prefix of names and of words in texts, with and
// without typos.
func BenchmarkFind(b *testing.B) {
	for _, words := range []int{40, 400} {
		docs := many(10_000, words)
		x := New(docs)
		var queries []string
		for i := 0; i < len(docs); i += 500 {
			typed := docs[i].Name + " " + strings.Fields(docs[i].Text)[0]
			for n := range len(typed) {
				queries = append(queries, typed[:n], strings.Replace(typed[:n], "e", "zq", 1))
			}
		}
		b.Run(fmt.Sprint(words, "words"), func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				x.Find(queries[i%len(queries)], nil)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
		})
	}
}
