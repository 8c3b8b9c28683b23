package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/inbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// doctorCommand checks everything on this machine that a working setup needs.
type doctorCommand struct {
	*app
	failed bool
}

func newDoctorCommand(a *app) *cobra.Command {
	c := &doctorCommand{app: a}
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, servers, store, address and MCP clients, and report what to fix",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.run(cmd.Context())
			if c.failed {
				return exitStatus{exitError, nil}
			}
			return nil
		},
	}
}

// Marks for the results of checks.
const (
	healthy = "✓"
	notable = "!"
	faulty  = "✗"
)

// report prints one finding and how to fix it.
func (c *doctorCommand) report(mark, subject, text string, fixes ...string) {
	c.failed = c.failed || mark == faulty
	fmt.Fprintf(c.out, "%s %-14s %s\n", mark, untrusted.Printable(subject), untrusted.Printable(text))
	for _, fix := range fixes {
		for line := range strings.Lines(fix) {
			fmt.Fprintf(c.out, "  %-14s %s\n", "", untrusted.Printable(strings.TrimRight(line, "\r\n")))
		}
	}
}

func (c *doctorCommand) run(ctx context.Context) {
	c.report(healthy, "toolyard", fmt.Sprintf("%s on %s/%s", c.opts.Process.Version, runtime.GOOS, runtime.GOARCH))
	if runtime.GOOS != "linux" {
		c.report(notable, "scripts", "run with no system-call filter, because this system does not support one")
	}
	source, err := c.loadConfig()
	if err != nil {
		c.reportConfigError(err)
	} else {
		c.report(healthy, "configuration", c.configName())
		if c.examineStore(ctx, source) {
			c.examineYard(ctx)
		}
		c.examineAddress(ctx, source.Listen)
		c.examineTLS(source)
	}
	c.examineClients(ctx)
}

func (c *doctorCommand) configName() string {
	switch {
	case c.opts.ConfigFile != "":
		return c.opts.ConfigFile
	case c.opts.Store != "":
		return "from the store"
	}
	return "none; the defaults apply. Create one with toolyard import or toolyard new"
}

func (c *doctorCommand) reportConfigError(err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		c.report(faulty, "configuration", err.Error())
		return
	}
	for _, p := range faults {
		c.reportProblem("configuration", p)
	}
}

func (c *doctorCommand) reportProblem(subject string, p toolyard.Problem) {
	mark := faulty
	if p.Warning {
		mark = notable
	}
	c.report(mark, subject, p.String(), p.Frame, p.Fix)
}

// examineStore opens the store. It reports whether the yard can start.
func (c *doctorCommand) examineStore(ctx context.Context, source *config.Source) bool {
	if !source.NeedsStore() && c.opts.Store == "" {
		c.report(notable, "store", "none: calls are not recorded, and keys, limits and prices are unavailable", "To configure one, "+storeHint+".")
		return true
	}
	address, err := c.storeAddress()
	if err != nil {
		c.report(notable, "store", err.Error())
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := withStoreAt(ctx, address, func(*openStore) error { return nil }); err != nil {
		c.report(faulty, "store", storeName(address)+": "+err.Error(), "Check the address and that the database is running and reachable from this machine.")
		return false
	}
	c.report(healthy, "store", storeName(address))
	return true
}

// storeTimeout is how long doctor waits for the store.
const storeTimeout = 20 * time.Second

// examineYard loads the tools, connects to the servers, and reports their problems.
func (c *doctorCommand) examineYard(ctx context.Context) {
	err := c.withServers(ctx, func(_ context.Context, y *yard.Yard) error {
		for _, p := range y.Problems() {
			c.reportProblem("problem", p)
		}
		servers := y.Servers()
		for _, id := range slices.Sorted(maps.Keys(servers)) {
			if servers[id].Up() {
				c.report(healthy, "server "+id, plural(len(servers[id].Tools()), "tool"))
			}
		}
		for _, name := range y.Gates() {
			if v, ok := y.View(name); ok {
				c.report(healthy, "gate "+name, fmt.Sprintf("%s, %s", v.Mode, plural(len(v.Tools), "tool")))
			}
		}
		return nil
	})
	if err != nil {
		c.report(faulty, "yard", err.Error())
	}
}

// examineAddress reports whether the server can listen on its address or, if not, what is listening
// there.
func (c *doctorCommand) examineAddress(ctx context.Context, address string) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		_ = l.Close()
		c.report(healthy, "address", address+" is free; start the server with toolyard serve --http")
		return
	}
	if responds(ctx, "http://"+address) {
		c.report(healthy, "address", "a server is running at "+address)
		return
	}
	c.report(faulty, "address", err.Error(), "Stop the program that uses this address, or set listen to a different address in the configuration.")
}

// examineTLS reads the certificate and reports when it expires.
func (c *doctorCommand) examineTLS(source *config.Source) {
	if source.TLS == nil {
		return
	}
	beside := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(c.opts.ConfigFile), path)
	}
	certificate, err := inbound.LoadCertificate(inbound.CertificateFiles{Cert: beside(source.TLS.Cert), Key: beside(source.TLS.Key)})
	if err != nil {
		c.report(faulty, "tls", err.Error(), "Set tls.cert and tls.key to the PEM files of a certificate and its private key.")
		return
	}
	now := c.now()
	switch from, until := certificate.Validity(); {
	case now.After(until):
		c.report(faulty, "tls", "the certificate expired at "+until.UTC().Format(time.RFC3339), "Renew it and replace its files.")
	case now.Before(from):
		c.report(faulty, "tls", "the certificate is not valid before "+from.UTC().Format(time.RFC3339), "Check this machine's clock.")
	case certificate.Expiring(now):
		c.report(notable, "tls", "the certificate expires at "+until.UTC().Format(time.RFC3339), "Renew it and replace its files.")
	default:
		c.report(healthy, "tls", "the certificate is valid until "+until.UTC().Format(time.RFC3339))
	}
}

// responds reports whether an instance responds at an address.
func responds(ctx context.Context, address string) bool {
	base, err := url.Parse(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, body, err := probe(ctx, base, "healthz", false) //nolint:bodyclose // probe closes it
	return err == nil && body == "ok\n"
}

// examineClients reports the clients that have Toolyard in their configuration files.
func (c *doctorCommand) examineClients(ctx context.Context) {
	env, err := c.clientEnv()
	if err != nil {
		c.report(faulty, "clients", err.Error())
		return
	}
	found := false
	for _, client := range clientconfig.Clients {
		for _, path := range env.paths(client) {
			found = c.examineClient(ctx, env, client, path) || found
		}
	}
	if !found {
		c.report(notable, "clients", "Toolyard is not installed in any client", "Run toolyard install to list the clients, then toolyard install CLIENT.")
	}
}

// examineClient reports whether a client's file has an entry for Toolyard.
func (c *doctorCommand) examineClient(ctx context.Context, env clientEnv, client *clientconfig.Client, path string) (installed bool) {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	subject := client.ID
	if err != nil {
		c.report(notable, subject, err.Error())
		return false
	}
	servers, _, err := clientconfig.Read(path, data)
	if err != nil {
		c.report(notable, subject, err.Error(), client.Name+" probably cannot read this file either.")
		return false
	}
	for _, s := range servers {
		if s.Name != "toolyard" && s.Command != env.executable {
			continue
		}
		installed = true
		if s.URL != "" {
			c.examineURL(ctx, client, s.URL, path)
		} else {
			c.examineCommand(client, s, path)
		}
	}
	return installed
}

func (c *doctorCommand) examineURL(ctx context.Context, client *clientconfig.Client, address, path string) {
	base, _, found := strings.Cut(address, "/mcp")
	if found && responds(ctx, base) {
		c.report(healthy, client.ID, "connects to "+address+", which is responding")
		return
	}
	c.report(notable, client.ID, fmt.Sprintf("connects to %s, which is not responding (%s)", address, path),
		fmt.Sprintf("Run toolyard serve --http, or have the client launch Toolyard: toolyard install %s --stdio", client.ID))
}

func (c *doctorCommand) examineCommand(client *clientconfig.Client, s clientconfig.Server, path string) {
	if _, err := exec.LookPath(s.Command); err != nil {
		c.report(faulty, client.ID, fmt.Sprintf("starts %s, which does not exist (%s)", s.Command, path), fmt.Sprintf("Run toolyard install %s --stdio again.", client.ID))
		return
	}
	for i, arg := range s.Args {
		if arg != "--config" || i+1 == len(s.Args) || !filepath.IsAbs(s.Args[i+1]) {
			continue
		}
		if _, err := os.Stat(s.Args[i+1]); err != nil {
			c.report(faulty, client.ID, fmt.Sprintf("starts Toolyard with %s, which does not exist (%s)", s.Args[i+1], path),
				fmt.Sprintf("Run toolyard install %s --stdio in the folder that contains your configuration.", client.ID))
			return
		}
	}
	c.report(healthy, client.ID, "starts "+s.Command)
}
