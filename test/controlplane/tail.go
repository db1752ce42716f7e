package controlplane

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

// maxTail is how much of a log or an output an error may carry.
const maxTail = 4 << 10

// tailBuffer keeps the last maxTail bytes written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

// Write never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - maxTail; over > 0 {
		t.b = append([]byte(nil), t.b[over:]...)
	}
	return len(p), nil
}

// String is the text, without spaces around it.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}

// fileTail returns the last maxTail bytes of a file, or why it cannot be read.
func fileTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Seek(-maxTail, io.SeekEnd); err != nil {
		// Shorter than that: from the start.
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err.Error()
		}
	}
	var t tailBuffer
	if _, err := io.Copy(&t, io.LimitReader(f, maxTail)); err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return t.String()
}
