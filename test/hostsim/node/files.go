package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// maxFile bounds what a program reads of one file.
const maxFile = 4 << 20

func readFile(s system.System, path string) ([]byte, error) {
	f, err := s.Files.Open(windowsPath(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return b, err
}

// writeFile writes in one step, through a temporary file, with the access that the folder hands down.
func writeFile(s system.System, path string, data []byte) error {
	path = windowsPath(path)
	f, err := s.Files.Create(path+".tmp", "")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return s.Files.Rename(path+".tmp", path)
}

func exists(s system.System, path string) bool {
	_, err := s.Files.Stat(windowsPath(path))
	return err == nil
}

// mkdirAll makes a folder and those above it.
func mkdirAll(s system.System, path string) error {
	path = windowsPath(path)
	if _, err := s.Files.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := dirOf(path); parent != path {
		if err := mkdirAll(s, parent); err != nil {
			return err
		}
	}
	if err := s.Files.Mkdir(path, ""); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// openLog opens a log file as Go programs on Windows do, without delete sharing: its folder must exist. It is held until the process ends.
func openLog(p *fake.Process, path string) (*fake.Handle, error) {
	h, err := p.Open(windowsPath(path), fake.ModeAppend)
	if err != nil {
		return nil, fmt.Errorf("opening the log file: %w", err)
	}
	return h, nil
}

// flags splits arguments of the form --name=value, --name value and --flag (for names that bools has). It fails at the first name
// that known does not have, as pflag does, and at a word that is no flag.
func flags(args []string, known, bools map[string]bool) (map[string]string, error) {
	out := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			return nil, fmt.Errorf("unknown command %q", args[i])
		}
		name, value, has := strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "_", "-")
		switch {
		case !known[name] && !bools[name]:
			return nil, fmt.Errorf("unknown flag: --%s", name)
		case has:
		case bools[name]:
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		default:
			return nil, fmt.Errorf("flag needs an argument: --%s", name)
		}
		out[name] = value
	}
	return out, nil
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
