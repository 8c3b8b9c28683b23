package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

const (
	maxSecret = 64 << 10  // bytes in a file, and in the decrypted content of an age file
	maxAge    = 256 << 10 // bytes in an age file, including armor and recipients
)

// aged is a decrypted age file.
type aged struct {
	modified time.Time
	size     int64
	text     string
}

// path resolves a reference's path.
func (v *Vault) path(target string) string {
	if filepath.IsAbs(target) {
		return target
	}
	return filepath.Join(v.options.Dir, target)
}

func (v *Vault) readFile(target string) (string, error) {
	data, err := safefile.Read(v.path(target), maxSecret)
	if err != nil {
		return "", err
	}
	v.warnIfOpen(target)
	return strings.TrimRight(string(data), "\r\n"), nil
}

// warnIfOpen warns once about a secret file that other users can read.
func (v *Vault) warnIfOpen(target string) {
	info, err := os.Stat(v.path(target))
	if err != nil || info.Mode().Perm()&0o044 == 0 || runtime.GOOS == "windows" {
		return
	}
	v.mu.Lock()
	again := v.warned[target]
	v.warned[target] = true
	v.mu.Unlock()
	if !again {
		v.options.Warn(fmt.Sprintf("%s is readable by other users (mode %04o); run chmod 600 on it", target, info.Mode().Perm()))
	}
}

// readAge reads an age file, or the value of a key in the file.
func (v *Vault) readAge(target, key string) (string, error) {
	text, err := v.decrypted(target)
	if err != nil || key == "" {
		return strings.TrimRight(text, "\r\n"), err
	}
	return lookup(text, key)
}

// decrypted returns the text of an age file. The text is cached until the file changes.
func (v *Vault) decrypted(target string) (string, error) {
	path := v.path(target)
	info, err := os.Stat(path)
	if err != nil {
		return "", errors.New("cannot read the file; check that it exists")
	}
	v.mu.Lock()
	known, ok := v.opened[path]
	v.mu.Unlock()
	if ok && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.text, nil
	}
	data, err := safefile.Read(path, maxAge)
	if err != nil {
		return "", err
	}
	text, err := v.decrypt(data)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened[path] = aged{info.ModTime(), info.Size(), text}
	return text, nil
}

// decrypt decrypts an age file. It does not return errors from age, because they quote the input,
// which may be an unencrypted secret.
func (v *Vault) decrypt(data []byte) (string, error) {
	identities, err := v.identities()
	if err != nil {
		return "", err
	}
	var source io.Reader = bytes.NewReader(data)
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte(armor.Header)) {
		source = armor.NewReader(bytes.NewReader(trimmed))
	}
	r, err := age.Decrypt(source, identities...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return "", errors.New("no key in the identity file can decrypt the secret")
	}
	if err != nil {
		return "", errors.New("the file is damaged or is not an age file")
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	switch {
	case err != nil:
		return "", errors.New("the file is damaged")
	case len(text) > maxSecret:
		return "", fmt.Errorf("the secret is larger than %d KiB", maxSecret>>10)
	}
	return string(text), nil
}

// identities reads the keys that decrypt age files.
func (v *Vault) identities() ([]age.Identity, error) {
	if v.options.Identity == "" {
		return nil, errors.New("cannot decrypt the secret: no age identity file is configured")
	}
	data, err := safefile.Read(v.path(v.options.Identity), maxSecret)
	if err != nil {
		return nil, fmt.Errorf("age identity file %s: %w", v.options.Identity, err)
	}
	v.warnIfOpen(v.options.Identity)
	identities, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("age identity file %s must contain only age-keygen keys", v.options.Identity)
	}
	return identities, nil
}

// lookup returns the value for a key in lines of the form key=value. It skips empty lines and lines
// that start with #, and removes quotes around a value. A # or a backslash within a value is
// literal.
func lookup(text, key string) (value string, err error) {
	found := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return "", fmt.Errorf("line %d does not have the form key=value", n)
		}
		if strings.TrimSpace(k) != key {
			continue
		}
		if found {
			return "", fmt.Errorf("line %d: duplicate key", n)
		}
		value, found = unquote(strings.TrimSpace(v)), true
	}
	if !found {
		return "", errors.New("the file does not contain this key")
	}
	return value, nil
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
