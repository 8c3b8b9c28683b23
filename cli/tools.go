package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// toolsCommand lists a gate's tools.
type toolsCommand struct {
	*app
	asJSON bool
}

func newToolsCommand(a *app) *cobra.Command {
	c := &toolsCommand{app: a}
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List a gate's tools",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withServers(cmd.Context(), c.run)
		},
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *toolsCommand) run(_ context.Context, y *yard.Yard) error {
	v, err := c.view(y)
	if err != nil {
		return err
	}
	if c.asJSON {
		return fail(writeToolsJSON(c.out, v))
	}
	defer c.explainMissing(y, v)
	return fail(writeToolsTable(c.out, v))
}

// explainMissing explains why the list may be shorter than expected.
func (c *toolsCommand) explainMissing(y *yard.Yard, v *yard.View) {
	if down := y.Down(); len(down) > 0 {
		fmt.Fprintf(c.err, "Servers down: %s. Run \"toolyard check\" to see why.\n", strings.Join(down, ", "))
	}
	writes := 0
	for _, t := range y.Tools() {
		if !t.AllowedIn(v.Mode) {
			writes++
		}
	}
	if writes > 0 {
		fmt.Fprintf(c.err, "%s hidden: this gate is read-only. To mark a server's tool as read-only, set effects: {TOOL: read}. See \"toolyard why %s TOOL\".\n", writeTools(writes), v.Gate)
	}
	if n := len(y.Problems()); n > 0 {
		fmt.Fprintf(c.err, "%s. Run \"toolyard check\" for details.\n", plural(n, "problem"))
	}
}

func writeTools(n int) string {
	if n == 1 {
		return "1 write tool is"
	}
	return fmt.Sprintf("%d write tools are", n)
}

func writeToolsTable(out io.Writer, v *yard.View) error {
	if len(v.Tools) == 0 {
		fmt.Fprintln(out, "No tools.")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMODE\tCATEGORY\tDESCRIPTION")
	for _, t := range v.Tools {
		mode := toolyard.Write
		if t.IsReadOnly() {
			mode = toolyard.Read
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, mode, untrusted.Printable(t.Category), strings.ReplaceAll(untrusted.Printable(shorten(t.Description, 70)), "\t", " "))
	}
	return w.Flush()
}

func writeToolsJSON(out io.Writer, v *yard.View) error {
	type entry struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Category    string          `json:"category,omitempty"`
		ReadOnly    bool            `json:"readOnly"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema,omitempty"`
	}
	list := make([]entry, 0, len(v.Tools))
	for _, t := range v.Tools {
		list = append(list, entry{t.Name, t.Description, t.Category, t.IsReadOnly(), t.CallerInput(), t.Output})
	}
	return writeJSON(out, list)
}
