package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

// versionCommand prints information about this binary and its components.
type versionCommand struct {
	*app
	json, licenses bool
}

func newVersionCommand(a *app) *cobra.Command {
	c := &versionCommand{app: a}
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version and this binary's components with their licenses", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return fail(c.run()) },
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "print version, commit, date and components as JSON")
	cmd.Flags().BoolVar(&c.licenses, "licenses", false, "print the license texts of all components")
	cmd.MarkFlagsMutuallyExclusive("json", "licenses")
	return cmd
}

func (c *versionCommand) run() error {
	switch {
	case c.licenses:
		text, err := buildinfo.Licenses()
		if err == nil {
			_, err = c.out.Write(text)
		}
		return err
	case c.json:
		info := buildinfo.Read()
		info.Version = c.opts.Process.Version // a program with its own tools has its own version
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(info)
	}
	fmt.Fprintln(c.out, "toolyard", c.opts.Process.Version)
	return nil
}
