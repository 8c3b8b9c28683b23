package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/certtest"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

func TestHealthOverTLS(t *testing.T) {
	cert, key := certtest.New(t, time.Now().Add(60*24*time.Hour)).Write(t, t.TempDir())
	y, err := yard.New(yard.Options{Tools: basics.Tools(), Command: yard.Command{TLSCert: cert, TLSKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	serving, end := context.WithCancel(running)
	ran, served := make(chan struct{}), make(chan error, 1)
	go func() { defer close(ran); y.Run(running) }()
	go func() { served <- y.Serve(serving, l) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		stop()
		<-ran
	})
	<-y.Ready()
	f := &fixture{t: t}
	for _, scheme := range []string{"http", "https"} {
		if out := f.mustRun("health", "--timeout", "1m", "--url", scheme+"://"+l.Addr().String()); out != "ok\n" {
			t.Errorf("%s: %q", scheme, out)
		}
	}
}

func TestDoctorExaminesTheCertificate(t *testing.T) {
	f := newFixture(t, "listen: 127.0.0.1:0\ntls: {cert: tls.crt, key: tls.key}\n")
	t.Setenv("HOME", t.TempDir())
	dir := filepath.Dir(f.file)
	for _, step := range []struct {
		days int
		want string
	}{{60, "✓ tls            the certificate is valid until "}, {5, "! tls            the certificate expires at "}, {-1, "✗ tls            the certificate expired at "}, {100, "✗ tls            the certificate is not valid before "}} {
		certtest.New(t, f.now.Add(time.Duration(step.days)*24*time.Hour)).Write(t, dir)
		if out, _, _ := f.run("doctor"); !strings.Contains(out, step.want) {
			t.Errorf("%d days: no %q in\n%s", step.days, step.want, out)
		}
	}
	if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	if out, _, code := f.run("doctor"); code == exitOK || !strings.Contains(out, "✗ tls            "+filepath.Join(dir, "tls.key")) {
		t.Error(code, out)
	}
}
