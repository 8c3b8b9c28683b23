package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Arguments that are expensive to validate get a fast response: validating a recursive union takes
// linear time, and matching a pattern with lookaround stops when the budget is used up.
func TestCostlyArgumentsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{
		"filter.ts": `import { z } from "zod";
export const description = "Finds rows by a filter.";
export const modes = ["read", "write"];
const Filter: any = z.lazy(() => z.union([
  z.object({ op: z.literal("and"), args: z.array(Filter) }),
  z.object({ op: z.literal("or"), args: z.array(Filter) }),
  z.object({ op: z.literal("eq"), field: z.string() }),
]));
export const inputSchema = z.object({ filter: Filter });
export default async () => "found";
`,
		"slug.ts": `import { z } from "zod";
export const description = "Tags a page.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ tags: z.array(z.string().regex(/^(?!-)([a-z0-9]+-?)+$/)) });
export default async ({ tags }) => tags.length;
`,
	})
	tree := strings.Repeat(`{"op":"or","args":[`, 24) + `{"op":"eq","field":"x"}` + strings.Repeat("]}", 24)
	tags := strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("a", 40)+`!",`, 1_000), ",")
	for want, params := range map[string]string{
		"found":                    fmt.Sprintf(`{"name":"filter","arguments":{"filter":%s}}`, tree),
		"validation stopped after": fmt.Sprintf(`{"name":"slug","arguments":{"tags":[%s]}}`, tags),
		`did you mean \"tags\"?`:   `{"name":"slug","arguments":{"tags":[],"tasg":1}}`,
	} {
		for name, c := range eras(t, p) {
			start := time.Now()
			m, _ := c.send("1", "tools/call", params)
			if took := time.Since(start); took > 30*time.Second || !strings.Contains(string(m.Result), want) {
				t.Errorf("%s, %s after %v: %.300s", name, want, took, m.Result)
			}
		}
	}
}
