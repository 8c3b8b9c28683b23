package inbound

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// maxCertificate is the maximum size in bytes of a certificate file, including its chain, and of a
// key file.
const maxCertificate = 1 << 20

// Certificate is a TLS certificate whose files may be replaced while it is in use. Its methods are
// safe for concurrent use.
type Certificate struct {
	mu      sync.Mutex
	files   CertificateFiles
	current *tls.Certificate
	loaded  contents // content of the files in use
	failed  contents // content that could not be used; zero if the newest content is in use
	err     error    // why it could not be used
}

// CertificateFiles holds the paths of two PEM files: the certificate with its chain, and the key.
type CertificateFiles struct{ Cert, Key string }

// contents is the content of the two files.
type contents struct{ cert, key []byte }

func (c contents) equal(d contents) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key)
}

// LoadCertificate reads a certificate and its key.
func LoadCertificate(files CertificateFiles) (*Certificate, error) {
	data, err := files.read()
	if err != nil {
		return nil, err
	}
	pair, err := parsePair(files, data)
	if err != nil {
		return nil, err
	}
	return &Certificate{files: files, current: pair, loaded: data}, nil
}

func (f CertificateFiles) read() (data contents, err error) {
	if data.cert, err = safefile.Read(f.Cert, maxCertificate); err != nil {
		return contents{}, fmt.Errorf("%s: %w", f.Cert, err)
	}
	if data.key, err = safefile.Read(f.Key, maxCertificate); err != nil {
		return contents{}, fmt.Errorf("%s: %w", f.Key, err)
	}
	return data, nil
}

// parsePair checks that the key belongs to the certificate. Errors never contain a key.
func parsePair(files CertificateFiles, data contents) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(data.cert, data.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", files.Cert, files.Key, err)
	}
	return &pair, nil
}

// Reload reads the files again. If they cannot be used, the previous certificate stays in use.
// Because the two files are not replaced at the same time, Err reports a problem only after two
// consecutive reads have found it.
func (c *Certificate) Reload(files CertificateFiles) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = files
	data, err := files.read()
	if err == nil && data.equal(c.loaded) {
		changed = c.err != nil
		c.failed, c.err = contents{}, nil
		return changed
	}
	var pair *tls.Certificate
	if err == nil {
		pair, err = parsePair(files, data)
	}
	if err == nil {
		c.current, c.loaded, c.failed, c.err = pair, data, contents{}, nil
		return true
	}
	if c.failed.cert == nil || !c.failed.equal(data) {
		c.failed = contents{cert: append([]byte{}, data.cert...), key: data.key} // not nil, even if nothing was read
		return false
	}
	changed = c.err == nil || c.err.Error() != err.Error()
	c.err = err
	return changed
}

// Err returns the reason if the current files are not in use, or nil.
func (c *Certificate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Validity returns the current certificate's validity period.
func (c *Certificate) Validity() (notBefore, notAfter time.Time) {
	leaf := c.leaf()
	return leaf.NotBefore, leaf.NotAfter
}

func (c *Certificate) leaf() *x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf
}

// Expiring reports whether the certificate should already have been renewed, because less than a
// sixth of its lifetime, and less than 14 days, remain.
func (c *Certificate) Expiring(now time.Time) bool {
	notBefore, notAfter := c.Validity()
	return notAfter.Sub(now) < min(notAfter.Sub(notBefore)/6, 14*24*time.Hour)
}

// Config returns the TLS configuration for a server with this certificate. It allows TLS 1.2 and
// newer, with the standard library's cipher suites.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.current, nil
		},
	}
}
