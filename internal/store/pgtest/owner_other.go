//go:build !unix

package pgtest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// giveAway fails, because servers are only supported on Unix.
func giveAway(string) error { return errNoPrograms }

func killGroup(int) {}
