package controlplane

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock if nobody has one. The kernel drops it when the file is closed or its process ends.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
