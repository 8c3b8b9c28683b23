package cli

import "crypto/rand"

// letIn makes a token by which the person who starts a yard gets into its console, as long as
// it runs. It is shown on a terminal only, and never logged.
func (p *program) letIn() { p.opts.Operator = "tyl_" + rand.Text() }

// consoleLink is where the console is, with the token behind a #, where browsers keep it to
// themselves.
func (p *program) consoleLink(base string) string {
	if p.opts.Operator == "" {
		return base + "/console/"
	}
	return base + "/console/#key=" + p.opts.Operator
}
