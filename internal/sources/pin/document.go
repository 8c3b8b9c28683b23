package pin

import (
	"context"
	"fmt"
)

// Document is a text that processes share, with a version that changes whenever it does.
type Document interface {
	// Read reads the text; version zero means that there is none.
	Read(ctx context.Context) (body []byte, version int64, err error)
	// Write replaces the text of a version and returns the new one. Its error is ErrChanged
	// if it has another.
	Write(ctx context.Context, body []byte, version int64) (next int64, err error)
}

// document is a book's place in a document. Nobody is kept from writing: who comes second
// reads again what the first has written.
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
		data = []byte{} // there is a text, and it is empty
	}
	return data, now, now.version == last.version, nil
}

func (d document) write(data []byte, last revision) (now revision, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	now.version, err = d.Write(ctx, data, last.version)
	return now, err
}
