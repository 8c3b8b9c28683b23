//go:build !unix

package jsvm

import "os"

// pipeFile returns one of the streams connected to the parent.
func pipeFile(fd int) *os.File { return []*os.File{os.Stdin, os.Stdout}[fd] }
