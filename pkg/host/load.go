package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// LoadAgent reads wmcb.exe once to learn its digest and size; uploads read the file again.
func LoadAgent(path string) (AgentBinary, error) {
	f, err := os.Open(path)
	if err != nil {
		return AgentBinary{}, fmt.Errorf("opening the agent: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return AgentBinary{}, fmt.Errorf("reading the agent: %w", err)
	}
	if size == 0 {
		return AgentBinary{}, fmt.Errorf("the agent %s is empty", path)
	}
	return AgentBinary{
		Digest: hex.EncodeToString(h.Sum(nil)), Size: size,
		Open: func() (io.ReadCloser, error) { return os.Open(path) },
	}, nil
}
