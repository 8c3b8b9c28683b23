package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/script"
)

// newConfig is the start of a configuration file that a command creates.
const newConfig = `# Run "toolyard schema" for the JSON Schema of this file.
gates: {default: {mode: write, naming: plain}}
`

// newCommand creates a TypeScript tool from a template.
type newCommand struct {
	*app
	template string
}

func newNewCommand(a *app) *cobra.Command {
	c := &newCommand{app: a}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a TypeScript tool from a template, with a test and types for editors",
		Args:  cobra.ExactArgs(1),
		Example: `  toolyard new hello
  toolyard new rates --template fetch`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := script.CheckNew(args[0], c.template); err != nil {
				return usageError(err)
			}
			return fail(c.run(args[0]))
		},
	}
	cmd.Flags().StringVarP(&c.template, "template", "t", "hello", "template: "+strings.Join(script.Templates(), ", "))
	return cmd
}

func (c *newCommand) run(name string) error {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	written, err := script.NewTool(dir, name, c.template)
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

// folder is where new tools are created: the folder of the flags or of the configuration, or
// tools, with a configuration file that names it.
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
