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

func (p *program) newCommand() *cobra.Command {
	var template string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a new TypeScript tool from a template, with types for editors",
		Args:  cobra.ExactArgs(1),
		Example: `  toolyard new hello
  toolyard new rates --template fetch`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := script.CheckNew(args[0], template); err != nil {
				return exitStatus{exitUsage, err}
			}
			dir, err := p.newFolder()
			if err != nil {
				return fail(err)
			}
			written, err := script.NewTool(dir, args[0], template)
			if err != nil {
				return fail(err)
			}
			for _, file := range written {
				if !strings.Contains(file, ".toolyard"+string(filepath.Separator)) {
					fmt.Fprintln(p.out, "wrote", filepath.ToSlash(file))
				}
			}
			fmt.Fprintln(p.out, "toolyard dev serves it and shows what happens.")
			return nil
		},
	}
	c.Flags().StringVarP(&template, "template", "t", "hello", "what to start from: "+strings.Join(script.Templates(), ", "))
	return c
}

// newFolder is where new tools go: the folder of the flags or the configuration, or tools
// and a configuration that says so.
func (p *program) newFolder() (string, error) {
	if p.opts.Scripts.Dir != "" {
		return p.opts.Scripts.Dir, nil
	}
	if p.opts.ConfigFile == "" {
		text := "# The JSON Schema of this file: toolyard schema\nscripts: {dir: tools}\n"
		if err := os.WriteFile(config.File, []byte(text), 0o644); err != nil { //nolint:gosec // for everybody to read
			return "", err
		}
		fmt.Fprintln(p.out, "wrote", config.File)
		return "tools", nil
	}
	c, err := config.Load(p.opts.ConfigFile, p.opts.Getenv)
	if err != nil {
		return "", err
	}
	if c.Scripts == nil {
		return "", fmt.Errorf("%s names no folder of scripts; add the line: scripts: {dir: tools}", p.opts.ConfigFile)
	}
	if filepath.IsAbs(c.Scripts.Dir) {
		return c.Scripts.Dir, nil
	}
	return filepath.Join(filepath.Dir(p.opts.ConfigFile), c.Scripts.Dir), nil
}
