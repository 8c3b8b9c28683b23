//go:build !unix

package pgtest

import (
	"errors"
	"io"
)

func mount(string, int) (io.Closer, error) {
	return nil, errors.New("mounting is not supported on this system")
}
