package yard

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// serverTLS holds the certificate that Serve uses for HTTPS.
type serverTLS struct {
	certificate atomic.Pointer[inbound.Certificate] // nil before Serve is called, or if TLS is off
	expiring    atomic.Bool                         // whether the certificate expires soon
}

// certificateInterval is how often the files are reread, because replaced links are not always reported.
const certificateInterval = 2 * time.Second

// tlsFiles returns the certificate files, and whether there are any.
func tlsFiles(a *assembly, opts *Options) (files inbound.CertificateFiles, ok bool) {
	if c := opts.Command; c.TLSCert != "" {
		return inbound.CertificateFiles{Cert: c.TLSCert, Key: c.TLSKey}, true
	}
	if a.TLS == nil {
		return inbound.CertificateFiles{}, false
	}
	beside := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(opts.ConfigFile), path)
	}
	return inbound.CertificateFiles{Cert: beside(a.TLS.Cert), Key: beside(a.TLS.Key)}, true
}

// start loads the certificate and rereads its files until stop is called.
func (t *serverTLS) start(p *publisher, opts *Options) (stop func(), err error) {
	files, _ := tlsFiles(p.current.Load(), opts)
	certificate, err := inbound.LoadCertificate(files)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t.expiring.Store(certificate.Expiring(opts.Process.Now()))
	t.certificate.Store(certificate)
	t.report(p)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(certificateInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				t.reload(p, opts)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// reload reads the current configuration's certificate files. If they cannot be used, the previous
// certificate stays in use, and the error is reported as a problem.
func (t *serverTLS) reload(p *publisher, opts *Options) {
	certificate := t.certificate.Load()
	files, ok := tlsFiles(p.current.Load(), opts)
	if certificate == nil || !ok {
		return
	}
	changed := certificate.Reload(files)
	expiring := certificate.Expiring(opts.Process.Now())
	if t.expiring.Swap(expiring) == expiring && !changed {
		return
	}
	if certificate.Err() == nil {
		_, until := certificate.Validity()
		p.log.Info("TLS certificate loaded", "file", files.Cert, "notAfter", until)
	}
	t.report(p)
}

func (t *serverTLS) report(p *publisher) {
	_, until := t.certificate.Load().Validity()
	p.metrics.Certificate(until)
	p.publish()
}

// problems reports files that cannot be used and a certificate that expires soon.
func (t *serverTLS) problems() (problems []toolyard.Problem) {
	certificate := t.certificate.Load()
	if certificate == nil {
		return nil
	}
	if err := certificate.Err(); err != nil {
		problems = append(problems, toolyard.Problem{
			Subject: "tls", Message: err.Error() + " (the previous certificate stays in use)",
			Fix: "Replace both files with a certificate and its private key in PEM format.",
		})
	}
	if _, until := certificate.Validity(); t.expiring.Load() {
		problems = append(problems, toolyard.Problem{
			Subject: "tls", Message: "the certificate expires at " + until.UTC().Format(time.RFC3339),
			Fix: "Renew it and replace its files; the server reloads them without a restart.", Warning: true,
		})
	}
	return problems
}

// quietHandshakes logs failed TLS handshakes at debug level, because any client can cause them.
type quietHandshakes struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h quietHandshakes) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: TLS handshake error") {
		r.Level = slog.LevelDebug
		if !h.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}
