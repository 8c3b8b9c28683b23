package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// SmallForTest is like StartForTest, but uses a disk of at least 96 MB that FillDisk can fill. The
// test is skipped if the disk cannot be mounted.
func SmallForTest(t testing.TB, megabytes int, settings ...string) *Cluster {
	t.Helper()
	c, err := newCluster("", append([]string{"min_wal_size=8MB", "max_wal_size=16MB"}, settings...))
	need(t, c, err)
	t.Cleanup(func() { _ = c.Close() })
	disk, err := mount(c.dir, megabytes)
	if err != nil {
		t.Skip("no small disk is mounted: ", err)
	}
	c.disk = disk
	if err := errors.Join(giveAway(c.dir), c.initialize()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cluster) ballast() string { return filepath.Join(c.dir, "ballast") }

// FillDisk fills the disk of a cluster started with SmallForTest.
func (c *Cluster) FillDisk() error {
	if c.disk == nil {
		return errors.New("pgtest: only the disk of SmallForTest can be filled")
	}
	f, err := os.OpenFile(c.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, size := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// FreeDisk frees the disk again, and restarts the server if it stopped.
func (c *Cluster) FreeDisk() error {
	if err := os.Remove(c.ballast()); err != nil {
		return err
	}
	if c.await(3*time.Second) == nil {
		return nil
	}
	if err := c.Stop("immediate"); err != nil {
		return err
	}
	return c.Start()
}
