//go:build linux

package wine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linkedFrom is the size from which files of C:\windows are shared between disks by hard links. They are programs and libraries, which
// Windows replaces and never writes into.
const linkedFrom = 16 << 10

// cloneDisk copies a template.
func cloneDisk(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			return copyLink(path, target)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if strings.HasPrefix(rel, "drive_c/windows/") && info.Size() >= linkedFrom {
			return os.Link(path, target)
		}
		return copyFile(path, target)
	})
}

func copyLink(from, to string) error {
	where, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(where, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// path returns where a file of drive C: lies. The case must be the one on the disk.
func (m *Machine) path(windows string) string {
	return filepath.Join(m.disk, "drive_c", strings.ReplaceAll(strings.TrimPrefix(windows, `C:\`), `\`, "/"))
}

// Registry returns HKEY_LOCAL_MACHINE as it is on the disk, in Wine's text format. Wine writes what has changed every half a minute (its server's
// save_timeout), Windows does so within some seconds; what was changed since is lost when the plug is pulled.
func (m *Machine) Registry() ([]byte, error) { return os.ReadFile(filepath.Join(m.disk, "system.reg")) }

// File returns a file of the machine as it is now, whether the machine is on or off.
func (m *Machine) File(path string) ([]byte, error) { return os.ReadFile(m.path(path)) }

// Put writes a file of the machine, with its folder.
func (m *Machine) Put(path string, content []byte) error {
	at := m.path(path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, content, 0o755)
}

// Remove removes a file or a folder with everything in it, should there be one.
func (m *Machine) Remove(path string) error { return os.RemoveAll(m.path(path)) }

// ours are folders that belong to the bed or change by themselves.
func ours() []string {
	return []string{
		"windows/bed", "windows/temp", "windows/Installer", "ProgramData/ssh/logs", "ProgramData/Microsoft/Windows/HNS",
		"users/root/AppData/Local/Temp", "users/root/Temp",
	}
}

// Files returns every file and folder of drive C: with the digest of its contents, "folder" for a folder.
func (m *Machine) Files() (map[string]string, error) {
	out := map[string]string{}
	base := filepath.Join(m.disk, "drive_c")
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		for _, o := range ours() {
			if rel == o {
				return skip(d)
			}
		}
		name := `C:\` + strings.ReplaceAll(rel, "/", `\`)
		if !d.Type().IsRegular() {
			out[name] = "folder"
			return nil
		}
		out[name], err = digest(path)
		return err
	})
	return out, err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Service is a service as the machine's service manager has it.
type Service struct {
	Name, Command string
	// State is Windows' number: 1 stopped, 4 running.
	State uint32
	PID   uint32
}

// Services returns the services of the machine by name.
func (m *Machine) Services(ctx context.Context) (map[string]Service, error) {
	b, err := m.Wine(ctx, `C:\windows\bed\guest.exe`, "services")
	if err != nil {
		return nil, err
	}
	var list []Service
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("reading the services of %s: %w", m.opts.Name, err)
	}
	out := map[string]Service{}
	for _, s := range list {
		out[s.Name] = s
	}
	return out, nil
}

// StartService makes a service of a program with arguments and starts it, as an administrator would. It does not start at boot.
func (m *Machine) StartService(ctx context.Context, name, program string, args ...string) error {
	_, err := m.Wine(ctx, append([]string{`C:\windows\bed\guest.exe`, "start", name, program}, args...)...)
	return err
}

// RemoveService stops a service and deletes it.
func (m *Machine) RemoveService(ctx context.Context, name string) error {
	_, err := m.Wine(ctx, `C:\windows\bed\guest.exe`, "remove", name)
	return err
}

// Kill ends every process of a program such as kubelet.exe, as the task manager does.
func (m *Machine) Kill(ctx context.Context, program string) error {
	_, err := m.Wine(ctx, `C:\windows\bed\guest.exe`, "kill", program)
	return err
}

// SSH is what the SSH service has served since the machine was made.
type SSH struct {
	Connections int
	// Channels are the commands and subsystems in order, one a channel.
	Channels []string
}

// SSH reads the SSH service's log.
func (m *Machine) SSH() (SSH, error) {
	b, err := m.File(`C:\ProgramData\ssh\logs\sshd.log`)
	if err != nil {
		return SSH{}, err
	}
	return readSSH(string(b)), nil
}

func readSSH(log string) SSH {
	var s SSH
	for line := range strings.Lines(log) {
		_, what, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		what = strings.TrimSpace(what)
		switch verb, rest, _ := strings.Cut(what, " "); verb {
		case "open":
			s.Connections++
		case "exec", "subsystem":
			s.Channels = append(s.Channels, rest)
		}
	}
	return s
}
