//go:build !unix

package pgtest

import (
	"errors"
	"io"
)

func mount(string, int) (io.Closer, error) { return nil, errors.New("nothing is mounted here") }
