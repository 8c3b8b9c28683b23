package pgtest

import (
	"errors"
	"fmt"
	"time"
)

// Standby creates and starts a second cluster that replicates this one. From then on, commits are
// durable on both disks, so a failover loses nothing. While the standby is down, commits wait for
// it.
func (c *Cluster) Standby(dir string) (*Cluster, error) {
	if c.bin == "" {
		return nil, errNotOurs
	}
	s, err := newCluster(dir, c.settings)
	if err != nil {
		return nil, err
	}
	if err := s.follow(c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (c *Cluster) follow(primary *Cluster) error {
	err := c.tool("pg_basebackup", "-D", c.data(), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-h", primary.host, "-p", primary.port, "-U", "postgres")
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	if err := primary.Exec("alter system set synchronous_standby_names = '*'"); err != nil {
		return err
	}
	if err := primary.Exec("select pg_reload_conf()"); err != nil {
		return err
	}
	return primary.until("select exists (select from pg_stat_replication where sync_state = 'sync' and state = 'streaming')")
}

// Promote makes the standby the primary and waits until it accepts writes. The former primary must
// not be started again.
func (c *Cluster) Promote() error {
	if err := c.Exec("select pg_promote(true)"); err != nil {
		return err
	}
	return c.until("select not pg_is_in_recovery()")
}

// until waits until a query returns true.
func (c *Cluster) until(question string) error {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if yes, err := c.is(question); yes || err != nil {
			return err
		}
	}
	return fmt.Errorf("pgtest: still waiting after %s: %s", startTime, question)
}
