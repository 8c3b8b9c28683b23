package script

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
)

// CodeOfRun is a run's code. [NewToolFromCode] makes a tool from it.
type CodeOfRun struct {
	Run   string // ID of the run
	Code  string
	Mode  toolyard.Mode        // mode of the gate
	Tools map[string][2]string // server and name of each called tool, keyed by its name in the code
}

// NewToolFromCode writes a run's code into a folder as a tool, together with types for editors. It
// returns the files that it wrote. It does not replace existing files.
func NewToolFromCode(dir, name string, c CodeOfRun) ([]string, error) {
	if !toolName.MatchString(name) {
		return nil, fmt.Errorf("invalid tool name %q: use letters, digits, - and _", name)
	}
	file := filepath.Join(dir, name+".ts")
	if _, err := os.Stat(file); err == nil {
		return nil, fmt.Errorf("%s already exists; choose another name", file)
	}
	w := &writer{dir: dir}
	w.write(name+".ts", []byte(c.source(name)))
	w.types()
	return w.written, w.err
}

// source returns the source of the tool's file.
func (c *CodeOfRun) source(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `import { z } from "zod";
import { gateTools, type Context } from "toolyard";

// From run %s. Review the code, describe the tool, and turn its constants into arguments.
export const description = %s;
`, c.Run, quoted("Runs the code from "+name+"."))
	if c.Mode == toolyard.Read {
		b.WriteString("\nexport const modes = [\"read\", \"write\"];\n")
	}
	b.WriteString("\nexport const inputSchema = z.object({});\n\nexport default async (_args: z.infer<typeof inputSchema>, ctx: Context) => {\n  const tools = gateTools(ctx, {\n")
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		fmt.Fprintf(&b, "    %s: [%s, %s],\n", quoted(name), quoted(t[0]), quoted(t[1]))
	}
	b.WriteString("  });\n")
	b.WriteString(indented(c.Code))
	b.WriteString("};\n")
	return b.String()
}

func quoted(s string) string {
	raw, _ := json.Marshal(s) // cannot fail for a string
	return string(raw)
}

// indented indents the lines of code. Code with template literals is left unchanged, because
// indentation would change their values.
func indented(code string) string {
	code = strings.TrimRight(code, "\r\n\t ") + "\n"
	if strings.Contains(code, "`") {
		return code
	}
	var b strings.Builder
	for line := range strings.Lines(code) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		b.WriteString(line)
	}
	return b.String()
}
