package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/script"
)

// newConfig is the beginning of a configuration file created by a command.
const newConfig = `# Run "toolyard schema" for the JSON Schema of this file.
gates: {default: {mode: write, naming: plain}}
`

// newCommand creates a TypeScript tool from a template.
type newCommand struct {
	*app
	template string
	run      string // ID of the run whose code becomes the tool
}

func newNewCommand(a *app) *cobra.Command {
	c := &newCommand{app: a}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a TypeScript tool from a template, with a test and types for editors",
		Args:  cobra.ExactArgs(1),
		Example: `  toolyard new hello
  toolyard new rates --template fetch
  toolyard new ship_orders --from-run 06e9k2v…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.run != "" {
				return c.withStore(cmd.Context(), func(s *openStore) error { return c.fromRun(cmd.Context(), s, args[0]) })
			}
			if err := script.CheckNew(args[0], c.template); err != nil {
				return usageError(err)
			}
			return fail(c.fromTemplate(args[0]))
		},
	}
	cmd.Flags().StringVarP(&c.template, "template", "t", "hello", "template: "+strings.Join(script.Templates(), ", "))
	cmd.Flags().StringVar(&c.run, "from-run", "", "create the tool from the code in the recorded run_code call with this ID; requires record: {arguments: full}")
	cmd.MarkFlagsMutuallyExclusive("template", "from-run")
	return cmd
}

func (c *newCommand) fromTemplate(name string) error {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	written, err := script.NewTool(dir, name, c.template)
	return c.report(written, err)
}

// fromRun creates a tool from a recorded run's code.
func (c *newCommand) fromRun(ctx context.Context, s *openStore, name string) error {
	id, _, _ := strings.Cut(c.run, "-") // a run's ID starts with its call's ID
	row, err := s.Call(ctx, id)
	if err != nil {
		return err
	}
	var args struct{ Code string }
	switch {
	case row.Tool != script.CodeTool || row.Server != "":
		return fmt.Errorf("call %s did not run code: it called %s", id, row.Tool)
	case len(row.Args) == 0 || json.Unmarshal(row.Args, &args) != nil || args.Code == "" || args.Code == "string": // in the latter case, only the type was recorded
		return fmt.Errorf("the code for run %s was not fully recorded: set record: {arguments: full}, and keep the code to 8 KiB or less", id)
	}
	made, err := s.Calls(ctx, store.CallQuery{Parent: id, Limit: maxCalls})
	if err != nil {
		return err
	}
	source, err := c.loadConfig()
	if err != nil {
		return err
	}
	dir, err := c.folder()
	if err != nil {
		return err
	}
	written, err := script.NewToolFromCode(dir, name, script.CodeOfRun{Run: id, Code: args.Code, Mode: row.Mode, Tools: namesIn(args.Code, source.Name, made)})
	return c.report(written, err)
}

// namesIn returns the called tools, keyed by the names that the code uses.
func namesIn(code, yard string, calls []*store.CallRow) map[string][2]string {
	names := make(map[string][2]string)
	for _, call := range calls {
		for _, naming := range []gates.Naming{gates.NamingMCP, gates.NamingPlain, gates.NamingClient} {
			if name := naming.Render(yard, call.Server, call.Tool); strings.Contains(code, name) {
				names[name] = [2]string{call.Server, call.Tool}
			}
		}
	}
	return names
}

// report prints the files that were written.
func (c *newCommand) report(written []string, err error) error {
	if err != nil {
		return err
	}
	for _, file := range written {
		if !strings.Contains(file, ".toolyard"+string(filepath.Separator)) {
			fmt.Fprintln(c.out, "wrote", filepath.ToSlash(file))
		}
	}
	fmt.Fprintln(c.out, `Run "toolyard test" to test it, and "toolyard dev" to serve it and watch it reload.`)
	return nil
}

// folder returns the folder for new tools: the one set by a flag or in the configuration. If there
// is none, it returns "tools" and creates a configuration file that refers to it.
func (c *newCommand) folder() (string, error) {
	if c.opts.Scripts.Dir != "" {
		return c.opts.Scripts.Dir, nil
	}
	if c.opts.ConfigFile == "" {
		text := newConfig + "scripts: {dir: tools}\n"
		if err := os.WriteFile(config.File, []byte(text), 0o644); err != nil { //nolint:gosec // not a secret
			return "", err
		}
		fmt.Fprintln(c.out, "wrote", config.File)
		return "tools", nil
	}
	source, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv)
	if err != nil {
		return "", err
	}
	if source.Scripts == nil {
		return "", fmt.Errorf("%s does not configure a scripts folder; add this line: scripts: {dir: tools}", c.opts.ConfigFile)
	}
	if filepath.IsAbs(source.Scripts.Dir) {
		return source.Scripts.Dir, nil
	}
	return filepath.Join(filepath.Dir(c.opts.ConfigFile), source.Scripts.Dir), nil
}
