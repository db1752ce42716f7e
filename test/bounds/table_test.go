package bounds

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const heading = "## Limits on input"

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]*`)
	limitName = regexp.MustCompile(`^[mM]ax[A-Z]`)
)

// bounded are the packages whose every limit must be in the table; those below pkg/agent/system bound what Windows answers the agent.
func bounded() []string {
	return []string{
		"cmd/wmcb/command", "controllers/csr", "controllers/host", "controllers/machine", "controllers/profile", "pkg/agent", "pkg/apis/v1alpha1", "pkg/cni",
		"pkg/console", "pkg/csr", "pkg/facts/discover", "pkg/host", "pkg/ignition", "pkg/kubelet", "pkg/payload", "pkg/plan", "pkg/ticket", "pkg/transport/ssh", "pkg/transport/winrm",
	}
}

// noInput are constants with such a name that bound nothing that is read.
func noInput() map[string]bool {
	return map[string]bool{
		"controllers/csr.maxAttempts": true, "pkg/csr.MaxAge": true, "pkg/csr.MaxLifetime": true, "pkg/ticket.maxNamePart": true, "pkg/transport/ssh.maxMissed": true,
	}
}

// limit is a row's constant.
type limit struct{ line, tests string }

// folders are those where the row's tests may be: of its constants, and those that the last cell names.
func (l limit) folders() []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(l.line, -1) {
		if at := strings.LastIndex(m[1], "."); at > 0 {
			out = append(out, m[1][:at])
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(l.tests, -1) {
		out = append(out, m[1])
	}
	return out
}

// table reads the rows of the table in docs/security.md, by "folder.Constant".
func table(t *testing.T) map[string]limit {
	t.Helper()
	f, err := os.Open("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, within := map[string]limit{}, false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "## ") {
			within = line == heading
		}
		cells := strings.Split(line, "|")
		if !within || len(cells) != 5 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			out[m[1]] = limit{line: cells[2], tests: cells[3]}
		}
	}
	return out
}

// constants are those of a package's own files with the name of a limit; the value is nil where it takes more than the line to know it.
func constants(sources []source) map[string]constant.Value {
	out := map[string]constant.Value{}
	for _, s := range sources {
		if s.test() {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			g, ok := n.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				return true
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if limitName.MatchString(name.Name) && i < len(v.Values) {
						out[path.Dir(s.name)+"."+name.Name] = value(v.Values[i])
					}
				}
			}
			return true
		})
	}
	return out
}

func value(e ast.Expr) constant.Value {
	tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(e))
	if err != nil {
		return nil
	}
	return tv.Value
}

// people writes a number as the table has it.
func people(v constant.Value) string {
	n, ok := constant.Int64Val(constant.ToInt(v))
	switch {
	case !ok:
		return v.String()
	case n >= 1<<30 && n%(1<<30) == 0 && n < 1<<40:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0 && n < 1<<40:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 1<<10 && n%(1<<10) == 0 && n < 1<<40:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprint(n)
}

// TestEveryLimitIsDocumented holds the table against the source: every limit is there, with its value, and with tests that exist.
func TestEveryLimitIsDocumented(t *testing.T) {
	rows, all := table(t), tree(t, "controllers", "pkg", "cmd", "test")
	tests := functions(all)
	inScope := map[string]bool{}
	for _, p := range bounded() {
		inScope[p] = true
	}
	found := constants(all)
	for name, v := range found {
		row, ok := rows[name]
		switch {
		case !inScope[name[:strings.LastIndex(name, ".")]] || noInput()[name]:
		case !ok:
			t.Errorf("%s is not in the table %q of docs/security.md", name, heading)
		case v != nil && !strings.Contains(row.line, "`"+name+"` "+people(v)):
			t.Errorf("%s is %s, the table says %s", name, people(v), row.line)
		}
	}
	for name, row := range rows {
		if _, ok := found[name]; !ok {
			t.Errorf("%s of the table does not exist", name)
		}
		named := testName.FindAllString(row.tests, -1)
		if len(named) == 0 {
			t.Errorf("%s has no test in the table", name)
		}
		for _, n := range named {
			if !slices.ContainsFunc(row.folders(), func(f string) bool { return tests[f+"."+n] }) {
				t.Errorf("%s: test %s is in none of %v", name, n, row.folders())
			}
		}
	}
}

// functions are all tests and fuzz targets, by "folder.Name".
func functions(sources []source) map[string]bool {
	out := map[string]bool{}
	for _, s := range sources {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test() && f.Recv == nil {
				out[path.Dir(s.name)+"."+f.Name.Name] = true
			}
		}
	}
	return out
}
