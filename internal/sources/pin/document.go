package pin

import (
	"context"
	"fmt"
)

// Document is a text shared by several processes. Each write changes its version.
type Document interface {
	// Read returns the text. Version zero means that the document does not exist.
	Read(ctx context.Context) (body []byte, version int64, err error)
	// Write replaces the text if version is current, and returns the new version. Otherwise it
	// returns ErrChanged.
	Write(ctx context.Context, body []byte, version int64) (next int64, err error)
}

// document stores a book in a Document. It has no lock: if a write fails with ErrChanged, the
// writer reads again and retries.
type document struct{ Document }

func (d document) name() string { return "the approved definitions in the store" }

func (d document) lock() (unlock func(), err error) { return func() {}, nil }

func (d document) read(last revision) (data []byte, now revision, same bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	data, now.version, err = d.Read(ctx)
	switch {
	case err != nil:
		return nil, now, false, fmt.Errorf("%s: %w", d.name(), err)
	case now.version == 0:
		return nil, now, false, nil
	case data == nil:
		data = []byte{} // the document exists but is empty
	}
	return data, now, now.version == last.version, nil
}

func (d document) write(data []byte, last revision) (now revision, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	now.version, err = d.Write(ctx, data, last.version)
	return now, err
}
