package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/subprocess"
)

// placeholder in a command's arguments is replaced with the reference.
const placeholder = "{ref}"

// commandDriver reads a secret from a program's standard output. The reference replaces {ref} in
// the arguments, or is added as the last argument. It is always a single argument, because no shell
// is involved.
type commandDriver struct {
	command []string
	env     map[string]string
	json    bool
	dir     string
	expand  func(template string) (string, error) // expands values in env
}

func checkCommandReference(s Store, ref string) error {
	if s.JSON {
		target, _, err := splitField(ref)
		if err != nil {
			return err
		}
		ref = target
	}
	switch {
	case ref == "":
		return errors.New("the reference is empty")
	case strings.ContainsFunc(ref, unicode.IsControl):
		return errors.New("the reference contains a control character")
	case strings.HasPrefix(ref, "-") && !hasPlaceholder(s.Command):
		return errors.New("the reference starts with -, so the program would interpret it as an option; use " + placeholder + " in command")
	}
	return nil
}

func hasPlaceholder(command []string) bool {
	return slices.ContainsFunc(command[1:], func(arg string) bool { return strings.Contains(arg, placeholder) })
}

func (d *commandDriver) arguments(ref string) []string {
	if !hasPlaceholder(d.command) {
		return append(slices.Clone(d.command[1:]), ref)
	}
	args := make([]string, 0, len(d.command))
	for _, arg := range d.command[1:] {
		args = append(args, strings.ReplaceAll(arg, placeholder, ref))
	}
	return args
}

// fetch implements driver.
func (d *commandDriver) fetch(ctx context.Context, ref string) (string, error) {
	if !d.json {
		output, err := d.run(ctx, ref)
		return strings.TrimRight(string(output), "\r\n"), err
	}
	target, field, err := splitField(ref)
	if err != nil {
		return "", err
	}
	output, err := d.run(ctx, target)
	if err != nil {
		return "", err
	}
	return member(output, field)
}

// run starts the program and returns its output.
func (d *commandDriver) run(ctx context.Context, ref string) ([]byte, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(d.env)) {
		value, err := d.expand(d.env[name])
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	p, err := subprocess.Start(subprocess.Command{
		Path: d.command[0], Args: d.arguments(ref), Env: env, Dir: d.dir, Limits: subprocess.Limits{Tail: 1, Grace: time.Second},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Out.Close() }()
	_ = p.In.Close() // a program that prompts for input sees the end of its input
	stop := context.AfterFunc(ctx, func() { p.Kill(); _ = p.Out.Close() })
	defer stop()
	output, err := io.ReadAll(io.LimitReader(p.Out, maxSecret+1))
	if err != nil || len(output) > maxSecret {
		p.Kill()
	}
	select {
	case <-p.Ended():
	case <-ctx.Done():
		p.Kill()
		<-p.Ended()
	}
	switch exit := p.Exit(); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(output) > maxSecret:
		return nil, fmt.Errorf("%s printed more than %d KiB", d.command[0], maxSecret>>10)
	case exit != nil:
		return nil, fmt.Errorf("%s failed (%w); its output is not shown because it may contain secrets; run the command in a terminal to see the reason", d.command[0], exit)
	case err != nil:
		return nil, fmt.Errorf("cannot read the output of %s", d.command[0])
	}
	return output, nil
}
