package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRank(t *testing.T) {
	x := New(catalog)
	for _, c := range []struct{ request, want string }{
		{"I would like to open a new issue about the broken build in our repository", "create_issue"},
		{"what does bitcoin cost right now, the last price please", "get_price"},
		{"Please store this file in the bucket", "S3.putObject"},
		{"send a message by mail to my colleagues", "sendEmail"},
		{"downloading web pages", "HTTPFetch"},
		{"candlestick chart", "get_candles"},               // part of a word
		{"repositry pulll request", "create_pull_request"}, // misspelled
		{"photo of the invoices to be paid", "pay_invoice"},
		{"put_object", "S3.putObject"}, // another spelling of a name
		{"whole documents of a workspase", "search"},
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
	got := names(New(catalog).Rank("First, list the issues of the repository at GitHub. Then pay the invoice! Finally, show the candles of the market.", 5, nil))
	for _, want := range []string{"list_issues", "pay_invoice", "get_candles"} {
		if !slices.Contains(got[:3], want) {
			t.Errorf("the first 3 of %q do not contain %q", got, want)
		}
	}
}

func TestRankReadsScriptsWithoutSpaces(t *testing.T) {
	x := New([]Doc{
		{Name: "geocode", Text: "将地址转换为坐标"},
		{Name: "weather", Text: "查询指定城市的天气预报 via API"},
		{Name: "tenki", Text: "東京の天気を調べる"},
		{Name: "nalssi", Text: "서울의 날씨를 조회합니다"},
		{Name: "akat", Text: "พยากรณ์อากาศวันนี้"},
	})
	for request, want := range map[string]int{
		"请帮我查一下上海的天气预报": 1, "把这个地址变成坐标": 0, "東京は今日どんな天気ですか": 2, "서울 날씨 알려줘": 3, "อากาศวันนี้เป็นอย่างไร": 4, "weather预报": 1,
	} {
		if got := x.Rank(request, 3, nil); len(got) == 0 || got[0].Doc != want {
			t.Errorf("Rank(%q) = %v, want first %d", request, got, want)
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
	if got := New(nil).Rank("anything", 5, nil); len(got) > 0 {
		t.Errorf("an empty index returned %v", got)
	}
}

func TestCategories(t *testing.T) {
	x := New([]Doc{{Category: "money"}, {Category: "web", Server: "s"}, {Server: "github"}, {Category: "web"}, {Name: "none"}, {Category: "hidden"}})
	got := x.Categories(func(i int) bool { return i != 5 })
	want := []Category{{"web", 2}, {"github", 1}, {"money", 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStem(t *testing.T) {
	for want, forms := range map[string]string{
		"creat": "create creates created creating creation", "quer": "query queries querying", "plan": "plan plans planned planning",
		"call": "call calls called calling", "class": "class classes", "box": "box boxes", "status": "status", "analysis": "analysis",
		"deplo": "deploy deployment deployed", "dail": "daily", "bus": "bus", "get": "get gets getting", "s3": "s3", "größe": "größe",
	} {
		for form := range strings.FieldsSeq(forms) {
			if got := stem(form); got != want {
				t.Errorf("stem(%q) = %q, want %q", form, got, want)
			}
		}
	}
}

func TestSentences(t *testing.T) {
	text := "Pay 3.50 to A. Now! Really?\nv1.2 is out;next。最后"
	want := []string{"Pay 3.50 to A.", " Now!", " Really?", "\nv1.2 is out", ";next", "。最后"}
	if diff := cmp.Diff(want, sentences(text)); diff != "" {
		t.Error(diff)
	}
}

// Requests of any size and content are read up to the limits.
func TestHugeRequestsAreBounded(t *testing.T) {
	x := New(catalog)
	many := func(n int, word func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(word(i))
		}
		return b.String()
	}
	for name, request := range map[string]string{
		"one word of 1 MiB":    strings.Repeat("a", 1<<20),
		"10,000 words":         many(10_000, func(i int) string { return fmt.Sprint("w", i, " ") }),
		"10,000 sentences":     many(10_000, func(i int) string { return fmt.Sprint("create issue", i, ". ") }),
		"zero-width":           strings.Repeat("cre\u200bate\u200d is\u2060sue ", 1000),
		"combining characters": "issue" + strings.Repeat("\u0301", 100_000),
		"Chinese":              strings.Repeat("查询天气", 10_000),
		"invalid UTF-8":        strings.Repeat("\xff\xfeissue", 10_000),
		"changes of case":      strings.Repeat("aB", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(request)
			if len(r.words) > maxRequestWords || len(r.sentences) > maxSentences {
				t.Errorf("%d words and %d sentences are read", len(r.words), len(r.sentences))
			}
			for _, word := range r.words {
				if len(word) > maxWord {
					t.Errorf("a word of %d bytes is read", len(word))
				}
			}
			if got := x.Rank(request, 1000, nil); len(got) > MaxHits {
				t.Errorf("%d hits", len(got))
			}
		})
	}
}

// Text beyond the limits of a definition is not searched, and its markup has no effect.
func TestDefinitionsAreBounded(t *testing.T) {
	filler := strings.Repeat("filler ", 16<<10/7)
	args := make([]Arg, 10_000)
	for i := range args {
		args[i] = Arg{Name: fmt.Sprint("a", i), Text: "argument"}
	}
	args[len(args)-1].Name = "beyond"
	x := New([]Doc{{Name: "a", Text: filler + "beyond", Args: args}, {Name: "b", Args: []Arg{{"c", filler + "beyond"}}}})
	if got := x.Rank("beyond", 5, nil); len(got) > 0 {
		t.Errorf("Rank = %v, want nothing", got)
	}
	plain, forged := slices.Clone(catalog), slices.Clone(catalog)
	forged[3].Text = strings.ReplaceAll(forged[3].Text, " ", "\n// ```\r\n\u2028")
	for _, request := range []string{"propose the changes of my branch", "list issues"} {
		if diff := cmp.Diff(New(plain).Rank(request, 5, nil), New(forged).Rank(request, 5, nil)); diff != "" {
			t.Errorf("Rank(%q): %s", request, diff)
		}
	}
}

// A server cannot displace the tools of others by stuffing its descriptions with their words.
func TestStuffedDescriptionsFillAtMostHalfOfThePage(t *testing.T) {
	var words strings.Builder
	for _, d := range catalog {
		words.WriteString(d.Name + " " + d.Title + " " + d.Text + " ")
	}
	docs := slices.Clone(catalog)
	for i := range 200 {
		docs = append(docs, Doc{Name: fmt.Sprint("best_tool_", i), Text: strings.Repeat(words.String(), 2), Server: "greedy"})
	}
	x := New(docs)
	for _, limit := range []int{1, 2, 5, 15, MaxHits} {
		hits := x.Rank("open a new issue in the repository and search the code", limit, nil)
		greedy, honest := 0, 0
		for _, h := range hits {
			if docs[h.Doc].Server == "greedy" {
				greedy++
			} else {
				honest++
			}
		}
		if len(hits) != limit || (greedy > (limit+1)/2 && honest < limit/2 && limit < len(catalog)) {
			t.Errorf("%d of %d hits are of the greedy server", greedy, len(hits))
		}
		if limit > 1 && !slices.ContainsFunc(hits, func(h Hit) bool { return docs[h.Doc].Name == "create_issue" }) {
			t.Errorf("the first %d hits do not contain create_issue", limit)
		}
	}
}

// A server that copies another server's tools gets the same scores, and at most half of a page.
func TestCopiedToolsDoNotDisplaceTheOriginals(t *testing.T) {
	docs := slices.Clone(catalog)
	for range 20 {
		d := catalog[0]
		d.Server = "copycat"
		docs = append(docs, d)
	}
	hits := New(docs).Rank("create an issue in the repository", 10, nil)
	at := slices.IndexFunc(hits, func(h Hit) bool { return h.Doc == 0 })
	if at < 0 || at > 5 {
		t.Errorf("the original is at %d of %v", at, hits)
	}
}

// One server may fill the page if the others have no matches or keep excludes them.
func TestOneServerFillsThePageAlone(t *testing.T) {
	var docs []Doc
	for i := range 20 {
		docs = append(docs, Doc{Name: fmt.Sprint("export_report_", i), Server: "reports"})
	}
	docs = append(docs, Doc{Name: "export_report_other", Server: "other"})
	x := New(docs)
	hits := x.Rank("export a report", 10, nil)
	if len(hits) != 10 || !slices.ContainsFunc(hits, func(h Hit) bool { return h.Doc == 20 }) {
		t.Errorf("Rank = %v, want 10 hits with the other server's", hits)
	}
	if hits := x.Rank("export a report", 10, func(i int) bool { return i < 20 }); len(hits) != 10 {
		t.Errorf("Rank = %v, want 10 hits", hits)
	}
}

// Only ties depend on the order of the documents.
func TestRankDoesNotDependOnTheOrderOfDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(docOf), 1, 30).Draw(t, "docs")
		request := rapid.StringMatching(`([a-c]{1,5}[ .]{1,2}){1,8}`).Draw(t, "request")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		order := rapid.Permutation(positions(len(docs))).Draw(t, "order")
		shuffled := make([]Doc, len(docs))
		for to, from := range order {
			shuffled[to] = docs[from]
		}
		want, got := New(docs).Rank(request, limit, nil), New(shuffled).Rank(request, limit, nil)
		if len(want) != len(got) {
			t.Fatalf("%d hits, and %d after shuffling", len(want), len(got))
		}
		count := make(map[float64]int)
		for _, h := range New(docs).Rank(request, MaxHits, nil) {
			count[h.Score]++
		}
		for i := range want {
			if want[i].Score != got[i].Score {
				t.Fatalf("hit %d has score %v, and %v after shuffling", i, want[i].Score, got[i].Score)
			}
			if count[want[i].Score] == 1 && want[i].Doc != order[got[i].Doc] {
				t.Fatalf("hit %d is document %d, and %d after shuffling", i, want[i].Doc, order[got[i].Doc])
			}
		}
	})
}

func positions(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// checkHits fails unless the hits are distinct, kept and within the limit.
func checkHits(t interface{ Fatalf(string, ...any) }, hits []Hit, docs, limit int, keep func(int) bool) {
	if len(hits) > max(0, min(limit, MaxHits, docs)) {
		t.Fatalf("%d hits for a limit of %d", len(hits), limit)
	}
	seen := make(map[int]bool)
	for _, h := range hits {
		if h.Doc < 0 || h.Doc >= docs || seen[h.Doc] || !keep(h.Doc) {
			t.Fatalf("%d is no document, was not kept, or was returned twice: %v", h.Doc, hits)
		}
		seen[h.Doc] = true
	}
}

func TestRankReturnsKeptDocumentsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(docOf), 0, 60).Draw(t, "docs")
		request := rapid.OneOf(rapid.StringMatching(`([a-c]{1,5}[ .]{1,2}){1,8}`), rapid.String()).Draw(t, "request")
		limit := rapid.IntRange(-1, 100).Draw(t, "limit")
		keep := func(i int) bool { return i%3 != 1 }
		checkHits(t, New(docs).Rank(request, limit, keep), len(docs), limit, keep)
	})
}

// Hidden documents do not affect the sentence and server scores of the others.
func TestRankIgnoresDocumentsThatAreNotKept(t *testing.T) {
	docs := []Doc{
		{Name: "pay_invoice", Server: "a"},
		{Name: "list_market_data", Server: "b"},
		{Name: "pay_invoice_and_send_mail", Server: "a"},
		{Name: "send_mail", Server: "c"},
		{Name: "unrelated"},
	}
	x := New(docs)
	hits := x.Rank("Pay the invoice. List market data.", 5, func(i int) bool { return i != 2 })
	if len(hits) != 2 || hits[0].Score < 1 || hits[1].Score < 1 {
		t.Errorf("Rank = %v, want the best document of each sentence", hits)
	}
}

func TestRankIsSafeForConcurrentUse(t *testing.T) {
	x := New(many(500, 20))
	requests := make([]string, 20)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range requests {
		d := many(500, 20)[r.IntN(500)]
		requests[i] = d.Name + ". " + d.Text
	}
	want := make([][]Hit, len(requests))
	for i, request := range requests {
		want[i] = x.Rank(request, 10, nil)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, request := range requests {
				if !slices.Equal(x.Rank(request, 10, nil), want[i]) {
					t.Errorf("Rank(%q) differs", request)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRank(f *testing.F) {
	f.Add("create_issue", "Create issue. Then list them", "create is", 5)
	f.Add("HTTPFetch", "ÄÖ\xff\x00查询天气", "serach \xff 天气。", 60)
	f.Fuzz(func(t *testing.T, name, text, request string, limit int) {
		docs := []Doc{
			{Name: name, Text: text},
			{Name: text, Title: name, Server: request},
			{Category: name, Args: []Arg{{name, text}, {text, request}}},
			{Name: request, Server: request},
		}
		keep := func(i int) bool { return i != 1 }
		x := New(docs)
		checkHits(t, x.Rank(request, limit, keep), len(docs), limit, keep)
		checkHits(t, x.Rank(text, limit, keep), len(docs), limit, keep)
	})
}

func BenchmarkRank(b *testing.B) {
	docs := many(10_000, 40)
	x := New(docs)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d := &docs[i*997%len(docs)]
		x.Rank(d.Name+". "+d.Text, 15, nil)
	}
}
