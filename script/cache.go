package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/jsvm/assets"
	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// entry is a compiled script in the cache.
type entry struct {
	Declaration [32]byte // hash of the JSON file next to it
	Code        string
	Map         []byte
	Inputs      []jsvm.Input
	Declared    json.RawMessage
}

// cache stores compiled scripts on disk, in one file per script. An entry is valid while all of its
// input files are unchanged. The cache is optional: if it cannot be read or written, scripts are
// compiled again.
type cache struct {
	dir string // no cache if empty

	mu   sync.Mutex
	size int64 // total bytes of all entries, including replaced ones
}

// Cache limits.
const (
	maxEntry   = 16 << 20            // bytes of one script; larger scripts are compiled at every start
	maxKept    = 256 << 20           // total bytes of a folder's scripts
	keptUnused = 30 * 24 * time.Hour // age at which the caches of unused folders and versions are removed
)

// openCache opens a folder's cache for this version of the engine.
func openCache(dir, folder string) *cache {
	if dir == "" {
		return &cache{}
	}
	h := sha256.New()
	for _, name := range []string{assets.Engine, assets.Runtime, assets.Zod} {
		data, _ := assets.Read(name)
		_, _ = h.Write(data)
	}
	_, _ = h.Write([]byte(harness + "\x00" + runtimeModule + "\x00" + folder + "\x00" + jsvm.Version))
	c := &cache{dir: filepath.Join(dir, "scripts", hex.EncodeToString(h.Sum(nil))[:32])}
	now := time.Now()
	_ = os.Chtimes(c.dir, now, now) // marks the cache as used; a missing directory is created later
	removeUnused(filepath.Join(dir, "scripts"), now.Add(-keptUnused))
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			c.size += info.Size()
		}
	}
	return c
}

// removeUnused removes caches that were last opened before the given time.
func removeUnused(dir string, since time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && info.ModTime().Before(since) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

func (c *cache) file(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json")
}

// get returns a script's entry, or nil if no entry matches its current content.
func (c *cache) get(f *file) *entry {
	if c.dir == "" {
		return nil
	}
	data, err := safefile.Read(c.file(f.path), maxEntry)
	if err != nil {
		return nil
	}
	e := &entry{}
	if json.Unmarshal(data, e) != nil || e.Declaration != f.declared || !c.fresh(f, e) {
		return nil
	}
	return e
}

// fresh reports whether all of the entry's input files are unchanged.
func (c *cache) fresh(f *file, e *entry) bool {
	own := false
	for _, in := range e.Inputs {
		if in.Path == f.abs {
			own = in.Sum == f.sum
		} else if sum := (sumCache{}).of(in.Path); sum != in.Sum {
			return false
		}
	}
	return own
}

// put stores an entry.
func (c *cache) put(f *file, e *entry) {
	if c.dir == "" {
		return
	}
	e.Declaration = f.declared
	data, err := json.Marshal(e)
	if err != nil || !c.fits(int64(len(data))) || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	_ = safefile.WriteCache(c.file(f.path), data) // if this fails, the script is compiled again
}

// fits reserves space for an entry, and reports whether there was enough.
func (c *cache) fits(size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > maxEntry || c.size+size > maxKept {
		return false
	}
	c.size += size
	return true
}

// forget removes the entries of deleted files.
func (c *cache) forget(paths []string) {
	for _, path := range paths {
		if c.dir != "" {
			_ = os.Remove(c.file(path))
		}
	}
}

// keepOnly removes the entries of all other files.
func (c *cache) keepOnly(files map[string]*file) {
	if c.dir == "" {
		return
	}
	kept := make(map[string]bool, len(files))
	for path := range files {
		kept[c.file(path)] = true
	}
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if path := filepath.Join(c.dir, e.Name()); !kept[path] {
			_ = os.Remove(path)
		}
	}
}
