package gobuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a lock that is taken is tried again.
const lockPoll = 200 * time.Millisecond

// lockFile takes an exclusive lock on path, creating the file, and calls waiting once if it has to wait. The kernel drops the
// lock when the file is closed or its process ends. The file is never removed, which would let two holders hold two files.
func lockFile(ctx context.Context, path string, waiting func()) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for first := true; ; first = false {
		taken, err := tryLock(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if taken {
			return f, nil
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), f.Close())
		case <-ticker.C:
		}
	}
}

// tryLock takes an exclusive lock if nobody has one.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
