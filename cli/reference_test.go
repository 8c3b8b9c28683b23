package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/packs/trading"
	"github.com/toolyard/toolyard/yard"
)

var update = flag.Bool("update", false, "write docs/reference/CLI.md")

const referenceIntro = `# Command line

Generated from the commands by ` + "`go test ./cli -run Reference -update`" + `. Do not edit.

Every command prints its help with ` + "`--help`" + `. A Go program that calls ` + "`cli.Main`" + ` has the same commands for its own tools.

| exit status | meaning |
|---|---|
| %d | success |
| %d | the configuration, a tool, a server or the network has a problem |
| %d | the command line is invalid |
| %d | the tool failed or rejected its arguments |

## Flags of every command

`

// TestCommandReferenceIsCurrent generates docs/reference/CLI.md from the toolyard program's
// commands.
func TestCommandReferenceIsCurrent(t *testing.T) {
	a := &app{opts: yard.Options{Packs: map[string]yard.Pack{homeassistant.Name: homeassistant.Pack(), "trading": trading.Pack()}}}
	root := a.rootCommand()
	var text strings.Builder
	fmt.Fprintf(&text, referenceIntro, exitOK, exitError, exitUsage, exitTool)
	writeFlags(&text, root.PersistentFlags())
	for _, c := range root.Commands() {
		writeCommand(&text, c)
	}
	const file = "../docs/reference/CLI.md"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text.String() {
		t.Errorf("docs/reference/CLI.md is stale (%v): run go test ./cli -run Reference -update", err)
	}
}

// writeCommand writes a command and its subcommands, in the order of the help.
func writeCommand(w *strings.Builder, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	fmt.Fprintf(w, "\n%s %s\n\n", strings.Repeat("#", strings.Count(c.CommandPath(), " ")+1), c.CommandPath())
	if c.Long == "" {
		fmt.Fprintf(w, "%s.\n", strings.TrimSuffix(c.Short, "."))
	}
	writeLong(w, c.Long)
	fmt.Fprintf(w, "\n```text\n%s\n```\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n\n```text\n%s\n```\n", outdent(c.Example))
	}
	if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
		w.WriteString("\n")
		writeFlags(w, flags)
	}
	for _, sub := range c.Commands() {
		writeCommand(w, sub)
	}
}

// writeLong writes a description. Indented paragraphs, such as lists of values, are preformatted.
func writeLong(w *strings.Builder, long string) {
	for i, paragraph := range strings.Split(strings.Trim(long, "\n"), "\n\n") {
		if i > 0 {
			w.WriteString("\n")
		}
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, "  "):
			fmt.Fprintf(w, "```text\n%s\n```\n", outdent(paragraph))
		default:
			fmt.Fprintf(w, "%s\n", escapeCell(paragraph))
		}
	}
}

func outdent(text string) string {
	return strings.TrimSpace(strings.ReplaceAll("\n"+strings.Trim(text, "\n"), "\n  ", "\n"))
}

func writeFlags(w *strings.Builder, flags *pflag.FlagSet) {
	w.WriteString("| flag | meaning |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + kind)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		usage = escapeCell(usage)
		if !slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue) {
			usage += " (default: `" + f.DefValue + "`)"
		}
		fmt.Fprintf(w, "| `%s` | %s |\n", name, usage)
	})
}

var special = regexp.MustCompile(`[|*<>]`)

// escapeCell escapes characters in plain text that Markdown would interpret.
func escapeCell(text string) string { return special.ReplaceAllString(text, `\$0`) }

// Every toolyard command in the documents exists and has the given flags.
func TestDocumentedCommandsExist(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)(?:^(?:\\$ )?|`|&& |; |\\$\\()toolyard ((?:[a-z]|--[a-z]|-[a-z])[^`\n|;&<>#)]*)")
	root := (&app{opts: yard.Options{Packs: map[string]yard.Pack{homeassistant.Name: homeassistant.Pack(), "trading": trading.Pack()}}}).rootCommand()
	found := 0
	for _, file := range append(files, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			if prose.MatchString(m[1]) {
				continue
			}
			found++
			words := strings.Fields(strings.TrimSpace(m[1]))
			c, rest, err := root.Find(words)
			if err != nil || c == root && !strings.HasPrefix(words[0], "-") {
				t.Errorf("%s: toolyard %s: %v", filepath.Base(file), m[1], err)
				continue
			}
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && name != "" && name != "help" && name != "version" && c.Flag(strings.Trim(name, `".,:\`)) == nil && c.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: toolyard %s: there is no flag --%s", filepath.Base(file), m[1], name)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands found", found)
	}
}

// prose matches a line of prose that begins with the program's name, or with an example's pack.
var prose = regexp.MustCompile(`^(is|as|and|has|with|command|serves|program|warehouse) `)
