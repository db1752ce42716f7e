//go:build linux

package wine

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	compiler = "x86_64-w64-mingw32-gcc"
	dumper   = "x86_64-w64-mingw32-objdump"
	system32 = "drive_c/windows/system32"
	// bedFolder holds what is of the test bed on a machine's disk.
	bedFolder   = "drive_c/windows/bed"
	bootTimeout = 2 * time.Minute
)

//go:embed template.reg
var baseRegistry []byte

// registry is what template.reg says, and that the recorded programs are the ones on the disk and not Wine's own.
func registry() []byte {
	out := bytes.Clone(bytes.TrimRight(baseRegistry, "\n"))
	for _, name := range recorded() {
		out = fmt.Appendf(out, "\n%q=\"native\"", path.Base(name))
	}
	return append(out, "\n\n"...)
}

// shim is a library or program that is compiled and put into system32.
type shim struct {
	source string
	as     []string
	libs   []string
	// behind is the name under which Wine's own library goes on living, "" where the shim replaces it. Functions called my_X stand for X.
	behind string
}

func shims() []shim {
	return []shim{
		{source: "ws2_32.c", as: []string{"ws2_32.dll"}, libs: []string{"-ladvapi32", "-lntdll"}, behind: "ws2_3o"},
		{source: "iphlpapi.c", as: []string{"iphlpapi.dll"}, libs: []string{"-lws2_32"}, behind: "iphlpo"},
		{source: "pdh.c", as: []string{"pdh.dll"}},
		{source: "hns.c", as: []string{"vmcompute.dll", "computenetwork.dll"}, libs: []string{"-lole32", "-lws2_32"}},
		{source: "dismapi.c", as: []string{"dismapi.dll"}, libs: []string{"-lws2_32"}},
		{source: "hnetcfg.c", as: []string{"hnetcfg.dll"}, libs: []string{"-lole32", "-loleaut32", "-luuid", "-lws2_32"}},
		{source: "record.c", as: recorded(), libs: []string{"-lws2_32"}},
	}
}

// recorded are the programs that nothing may start. Wine has them, and all that most of them do is to answer yes.
func recorded() []string {
	return []string{
		"WindowsPowerShell/v1.0/powershell.exe", "netsh.exe", "icacls.exe", "cacls.exe", "certutil.exe", "dism.exe", "wevtutil.exe", "setx.exe",
		"schtasks.exe", "wmic.exe", "wusa.exe", "shutdown.exe", "takeown.exe", "route.exe", "bcdedit.exe", "sc.exe", "taskkill.exe",
	}
}

// templateKey names a template by everything that it is made of.
func (p preparation) templateKey(k *Kit) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%q\n%s\n", templateGeneration, filepath.Base(k.root), shims(), registry())
	files, err := filepath.Glob(filepath.Join(p.source, "shim", "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// makeTemplate boots Wine on an empty disk, tells it which Windows it is, and puts the shims there.
func (p preparation) makeTemplate(ctx context.Context, k *Kit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	m := &Machine{kit: k, disk: dir, opts: Options{Name: "template", Address: "127.0.0.1"}}
	if err := m.start(ctx); err != nil {
		return err
	}
	defer func() { _ = m.PullPlug() }() // after PowerOff there is nothing to pull
	if err := p.furnish(ctx, k, m); err != nil {
		return err
	}
	if err := m.PowerOff(ctx); err != nil {
		return err
	}
	return p.installShims(ctx, k, dir)
}

func (p preparation) furnish(ctx context.Context, k *Kit, m *Machine) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := m.boot(); err != nil {
		return err
	}
	if out, err := m.Wine(ctx, "wineboot", "-i"); err != nil {
		return fmt.Errorf("making a disk: %w: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(m.disk, bedFolder, "acl"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.disk, bedFolder, "template.reg"), registry(), 0o600); err != nil {
		return err
	}
	if err := copyFile(k.guest, filepath.Join(m.disk, bedFolder, "guest.exe")); err != nil {
		return err
	}
	// The registry comes last: it names libraries that are not there yet.
	for _, args := range [][]string{{`C:\windows\bed\guest.exe`, "install"}, {"reg", "import", `C:\windows\bed\template.reg`}} {
		if out, err := m.Wine(ctx, args...); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func (p preparation) installShims(ctx context.Context, k *Kit, dir string) error {
	folder := filepath.Join(dir, system32)
	for _, s := range shims() {
		built := filepath.Join(dir, "built"+filepath.Ext(s.as[0])) // the compiler gives programs without an extension one
		if err := p.compile(ctx, k, s, built); err != nil {
			return fmt.Errorf("%s: %w", s.source, err)
		}
		if s.behind != "" {
			if err := os.Rename(filepath.Join(folder, s.as[0]), filepath.Join(folder, s.behind+".dll")); err != nil {
				return err
			}
		}
		for _, name := range s.as {
			if err := place(built, filepath.Join(folder, name)); err != nil {
				return err
			}
		}
		if err := os.Remove(built); err != nil {
			return err
		}
	}
	return nil
}

func place(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copyFile(from, to)
}

func (p preparation) compile(ctx context.Context, k *Kit, s shim, out string) error {
	source := filepath.Join(p.source, "shim", s.source)
	args := []string{"-O2", "-s", "-Wall", "-Wno-unused-function", "-o", out, source}
	if strings.HasSuffix(s.as[0], ".dll") {
		args = append(args, "-shared")
	}
	def := filepath.Join(p.source, "shim", strings.TrimSuffix(s.source, ".c")+".def")
	if s.behind != "" {
		def = out + ".def"
		text, err := exportsOf(ctx, filepath.Join(k.root, libraries, "x86_64-windows", s.as[0]), source, s.behind)
		if err != nil {
			return err
		}
		if err := os.WriteFile(def, text, 0o600); err != nil {
			return err
		}
		defer os.Remove(def)
	}
	if _, err := os.Stat(def); err == nil {
		args = append(args, def)
	}
	return command(ctx, compiler, append(args, s.libs...)...)
}

// exportsOf is the module definition of a library that hands every function on to Wine's own but those that its source defines.
func exportsOf(ctx context.Context, library, source, behind string) ([]byte, error) {
	dump, err := exec.CommandContext(ctx, dumper, "-p", library).Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s exports: %w", library, err)
	}
	code, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	return definition(filepath.Base(library), exportedNames(dump), code, behind), nil
}

// exportedNames reads the table of objdump.
func exportedNames(dump []byte) []string {
	_, table, _ := bytes.Cut(dump, []byte("[Ordinal/Name Pointer] Table"))
	table, _, _ = bytes.Cut(table, []byte("\n\n"))
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^\s*\[\s*\d+\]\s+(?:\+base\[\s*\d+\]\s+[0-9a-f]+\s+)?(\w+)$`).FindAllSubmatch(table, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

func definition(library string, names []string, source []byte, behind string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "LIBRARY %s\nEXPORTS\n", library)
	for _, n := range names {
		if bytes.Contains(source, []byte(" my_"+n+"(")) {
			fmt.Fprintf(&b, " %s=my_%s\n", n, n)
		} else {
			fmt.Fprintf(&b, " %s=%s.%s\n", n, behind, n)
		}
	}
	// Those that Wine does not have at all.
	for _, m := range regexp.MustCompile(` my_(\w+)\(`).FindAllSubmatch(source, -1) {
		if n := string(m[1]); !slices.Contains(names, n) {
			names = append(names, n)
			fmt.Fprintf(&b, " %s=my_%s\n", n, n)
		}
	}
	return b.Bytes()
}
