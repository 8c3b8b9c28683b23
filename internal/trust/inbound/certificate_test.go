package inbound_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/certtest"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// served returns the expiry of the certificate that a server presents.
func served(t *testing.T, c *inbound.Certificate) time.Time {
	t.Helper()
	pair, err := c.Config().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.NotAfter
}

func TestCertificateReload(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	first, second := certtest.New(t, now.Add(30*24*time.Hour)), certtest.New(t, now.Add(60*24*time.Hour))
	dir := t.TempDir()
	cert, key := first.Write(t, dir)
	files := inbound.CertificateFiles{Cert: cert, Key: key}
	c, err := inbound.LoadCertificate(files)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, wantChanged bool, want certtest.Pair, wantErr string) {
		t.Helper()
		if changed := c.Reload(files); changed != wantChanged {
			t.Errorf("%s: changed is %v", step, changed)
		}
		if got := served(t, c); !got.Equal(want.Leaf.NotAfter) {
			t.Errorf("%s: the certificate expires at %v", step, got)
		}
		if err := c.Err(); (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: %v, want %q", step, err, wantErr)
		}
	}
	check("unchanged", false, first, "")
	write(cert, second.Cert)
	check("the key is still the old one", false, first, "")
	write(key, second.Key)
	check("both are new", true, second, "")
	write(cert, []byte("no certificate"))
	check("broken, perhaps half-written", false, second, "")
	check("still broken", true, second, "tls.crt")
	check("reported once", false, second, "tls.crt")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	check("missing", false, second, "tls.crt")
	check("still missing", true, second, "no such file")
	write(cert, second.Cert)
	check("repaired", true, second, "")
}

// A Kubernetes secret is a link to a folder that is replaced as a whole.
func TestCertificateReloadFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	now := time.Now().Truncate(time.Second)
	first, second := certtest.New(t, now.Add(30*24*time.Hour)), certtest.New(t, now.Add(60*24*time.Hour))
	dir := t.TempDir()
	for name, pair := range map[string]certtest.Pair{"..1": first, "..2": second} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		pair.Write(t, filepath.Join(dir, name))
	}
	link := func(target, name string) {
		t.Helper()
		temporary := filepath.Join(dir, "..new")
		if err := os.Symlink(target, temporary); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link("..data/tls.crt", "tls.crt")
	link("..data/tls.key", "tls.key")
	files := inbound.CertificateFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	c, err := inbound.LoadCertificate(files)
	if err != nil {
		t.Fatal(err)
	}
	link("..2", "..data")
	if !c.Reload(files) || !served(t, c).Equal(second.Leaf.NotAfter) {
		t.Error("the new certificate is not in use")
	}
}

func TestCertificateExpiring(t *testing.T) {
	until := time.Now().Add(90 * 24 * time.Hour).Truncate(time.Second)
	cert, key := certtest.New(t, until).Write(t, t.TempDir())
	c, err := inbound.LoadCertificate(inbound.CertificateFiles{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for days, want := range map[int]bool{30: false, 15: false, 13: true, 0: true, -1: true} {
		if got := c.Expiring(until.Add(-time.Duration(days) * 24 * time.Hour)); got != want {
			t.Errorf("%d days before: %v", days, got)
		}
	}
}

func TestLoadCertificateRefuses(t *testing.T) {
	dir := t.TempDir()
	cert, key := certtest.New(t, time.Now().Add(time.Hour)).Write(t, dir)
	_, other := certtest.New(t, time.Now().Add(time.Hour)).Write(t, t.TempDir())
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range []inbound.CertificateFiles{{Cert: cert, Key: other}, {Cert: key, Key: cert}, {Cert: large, Key: key}, {Cert: dir, Key: key}, {Cert: cert, Key: "none"}} {
		if _, err := inbound.LoadCertificate(files); err == nil || strings.Contains(err.Error(), "PRIVATE KEY-----") {
			t.Errorf("%v: %v", files, err)
		}
	}
}
