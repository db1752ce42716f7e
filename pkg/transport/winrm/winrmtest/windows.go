package winrmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/windowsmachine/operator/pkg/powershell"
)

// Lines of the host's public keys, as sshd writes them.
const (
	Ed25519Line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICAfHh0cGxoZGBcWFRQTEhEQDw4NDAsKCQgHBgUEAwIB nt authority\\system@WIN-1"
	ECDSALine   = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA= nt authority\\system@WIN-1"
)

// Installer is what the installer's address gives, InstallerURL that address.
const (
	Installer    = "an installer"
	InstallerURL = "https://mirror.example/openssh/OpenSSH-Win64-v9.8.msi"
)

// InstallerSHA256 is the hash of Installer.
func InstallerSHA256() string {
	sum := sha256.Sum256([]byte(Installer))
	return hex.EncodeToString(sum[:])
}

// Windows is a model of the programs that first contact runs, in German. It is safe for concurrent use through Run.
type Windows struct {
	// Service is whether sshd is installed, Running whether it runs, Auto whether it starts by itself.
	Service, Running, Auto bool
	// Capability is what DISM ends with; it installs the service with 0.
	Capability uint32
	// Polls is how often the task is seen running.
	Polls int
	// Served is what InstallerURL gives; "" is Installer.
	Served string
	// InstallerExit is what msiexec ends with; it installs the service with 0 and 3010.
	InstallerExit uint32
	// KeyReads is how often the Ed25519 key is looked for in vain; a negative number is for ever, and only the ECDSA key is there.
	KeyReads int
	// Denied has sc.exe refuse the user.
	Denied bool
	// Noise has every program print PowerShell's progress and warnings around its output.
	Noise bool

	mu sync.Mutex
	// Task is whether the task exists, result what its last run ended with.
	Task   bool
	result int64
	// Folder is whether C:\ProgramData\ssh is there. Authorized are the lines of the file with keys.
	Folder     bool
	Authorized []string
	Owned      bool
	Protected  bool
	// Downloaded is the installer's file.
	Downloaded string
	Rules      []string
}

// noise is what PowerShell 5.1 prints without a console.
const noise = "#< CLIXML\r\n<Objs Version=\"1.1.0.1\" xmlns=\"http://schemas.microsoft.com/powershell/2004/04\"><Obj S=\"progress\" RefId=\"0\"/></Objs>\r\n"

// Run runs a command line.
func (w *Windows) Run(c Call) Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := fields(c.Line)
	if len(words) == 0 {
		return Result{Exit: 1}
	}
	name := words[0][strings.LastIndex(words[0], `\`)+1:]
	run := map[string]func([]string, []byte) Result{
		"sc.exe": w.sc, "schtasks.exe": w.schtasks, "curl.exe": w.curl, "certutil.exe": w.certutil, "msiexec.exe": w.msiexec,
		"del": w.del, "icacls.exe": w.icacls, "findstr.exe": w.findstr, "netsh.exe": w.netsh,
		"powershell.exe": func(_ []string, in []byte) Result { return w.powershell(c.Line, in) },
	}[name]
	if run == nil {
		// MSG_DIR_BAD_COMMAND_OR_FILE of cmd.exe.
		return Result{Exit: 9009, Stderr: "Der Befehl \"" + words[0] + "\" ist entweder falsch geschrieben oder konnte nicht gefunden werden."}
	}
	r := run(words[1:], c.Stdin)
	if w.Noise {
		r.Stderr += noise
	}
	return r
}

// fields splits at blanks outside of quotes.
func fields(line string) []string {
	var out []string
	var word strings.Builder
	quoted := false
	for _, r := range line + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word.Len() > 0 {
				out = append(out, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return out
}

// sc is the service control program, whose exit code is the Win32 error.
func (w *Windows) sc(args []string, _ []byte) Result {
	switch {
	case w.Denied:
		return Result{Exit: 5, Stdout: "[SC] OpenService FEHLER 5:\r\n\r\nZugriff verweigert\r\n"}
	case !w.Service:
		return Result{Exit: 1060, Stdout: "[SC] OpenService FEHLER 1060:\r\n\r\nDer angegebene Dienst ist kein installierter Dienst.\r\n"}
	case args[0] == "config":
		w.Auto = slices.Equal(args, []string{"config", "sshd", "start=", "auto"})
		return Result{}
	case args[0] == "start" && w.Running:
		return Result{Exit: 1056}
	case args[0] == "start":
		w.Running, w.Folder = true, true
	}
	return Result{Stdout: "SERVICE_NAME: sshd\r\n        STATUS             : 4  RUNNING\r\n"}
}

func (w *Windows) schtasks(args []string, _ []byte) Result {
	switch {
	case args[0] == "/Create":
		if !slices.Contains(args, `C:\Windows\System32\dism.exe /Online /Add-Capability /CapabilityName:OpenSSH.Server~~~~0.0.1.0 /NoRestart /Quiet`) {
			return Result{Exit: 1}
		}
		// SCHED_S_TASK_HAS_NOT_RUN.
		w.Task, w.result = true, 0x41303
		return Result{Stdout: "ERFOLGREICH\r\n", Stderr: "WARNUNG: Die Aufgabe wird möglicherweise nicht ausgeführt.\r\n"}
	case !w.Task:
		return Result{Exit: 1, Stderr: "FEHLER: Das System kann die angegebene Datei nicht finden.\r\n"}
	case args[0] == "/Run":
		w.result = 0x41301
	case args[0] == "/Delete":
		w.Task = false
	case args[0] == "/Query":
		return w.query()
	}
	return Result{}
}

// StartTask makes the task and runs it, as an operator did that has gone away.
func (w *Windows) StartTask() { w.Task, w.result = true, 0x41301 }

// query is one look at the task; it ends after some of them.
func (w *Windows) query() Result {
	if w.result == 0x41301 {
		if w.Polls--; w.Polls < 0 {
			w.result = int64(int32(w.Capability))
			w.Service = w.Service || w.Capability == 0
		}
	}
	return Result{Stdout: fmt.Sprintf("\"WIN-1\",\"\\windowsmachine-openssh\",\"Nicht zutreffend\",\"Wird, \"\"ausgeführt\"\"\",\"Interaktiv/Hintergrund\",\"01.12.2026 00:00:00\",\"%d\",\"WIN-1\\Administrator\",\"dism.exe\"\r\n", w.result)}
}

// curl reads its options from standard input; 22 is an HTTP error, 2 a bad option.
func (w *Windows) curl(args []string, in []byte) Result {
	options := strings.Split(string(in), "\n")
	if !slices.Equal(args, []string{"--config", "-"}) || !slices.Contains(options, `output = "C:\\Windows\\wmcb\\openssh.msi"`) || !slices.Contains(options, `proto = "=https"`) {
		return Result{Exit: 2}
	}
	if !slices.Contains(options, `url = "`+InstallerURL+`"`) {
		return Result{Exit: 22}
	}
	if w.Downloaded = w.Served; w.Downloaded == "" {
		w.Downloaded = Installer
	}
	return Result{}
}

func (w *Windows) certutil([]string, []byte) Result {
	if w.Downloaded == "" {
		// ERROR_FILE_NOT_FOUND as HRESULT.
		return Result{Exit: 0x80070002}
	}
	sum := sha256.Sum256([]byte(w.Downloaded))
	return Result{Stdout: "SHA256-Hash von C:\\Windows\\wmcb\\openssh.msi:\r\n" + hex.EncodeToString(sum[:]) + "\r\nCertUtil: -hashfile-Befehl wurde erfolgreich ausgeführt.\r\n"}
}

func (w *Windows) msiexec([]string, []byte) Result {
	if w.InstallerExit == 0 || w.InstallerExit == 3010 {
		w.Service, w.Running, w.Auto, w.Folder = true, true, true, true
	}
	return Result{Exit: w.InstallerExit}
}

func (w *Windows) del([]string, []byte) Result {
	w.Downloaded = ""
	return Result{}
}

func (w *Windows) icacls(args []string, _ []byte) Result {
	if len(w.Authorized) == 0 {
		return Result{Exit: 2}
	}
	w.Owned = w.Owned || slices.Contains(args, "/setowner")
	w.Protected = w.Protected || slices.Contains(args, "/inheritance:r") && slices.Contains(args, "*S-1-5-18:F") && slices.Contains(args, "*S-1-5-32-544:F")
	return Result{}
}

func (w *Windows) findstr(args []string, _ []byte) Result {
	file := args[len(args)-1]
	switch {
	case !w.Folder:
	case strings.Contains(file, "ed25519") && w.KeyReads == 0:
		return Result{Stdout: Ed25519Line + "\r\n"}
	case strings.Contains(file, "ed25519") && w.KeyReads > 0:
		w.KeyReads--
	case strings.Contains(file, "ecdsa"):
		return Result{Stdout: ECDSALine + "\r\n"}
	}
	return Result{Exit: 1, Stderr: "FINDSTR: " + file + " kann nicht geöffnet werden.\r\n"}
}

func (w *Windows) netsh(args []string, _ []byte) Result {
	verb, rule := args[2], args[4]
	if verb == "add" {
		w.Rules = append(w.Rules, strings.Join(args[4:], " "))
		return Result{}
	}
	if !slices.ContainsFunc(w.Rules, func(r string) bool { return strings.HasPrefix(r, rule+" ") }) {
		return Result{Exit: 1, Stdout: "Es wurden keine Regeln gefunden, die mit den angegebenen Kriterien übereinstimmen.\r\n"}
	}
	return Result{}
}

// powershell knows one script. It fails as the script does where the folder is missing.
func (w *Windows) powershell(line string, in []byte) Result {
	want, err := powershell.AuthorizeKey()
	if err != nil || line != want || !w.Folder {
		return Result{Exit: 1}
	}
	key := strings.TrimSpace(string(in))
	if !strings.HasPrefix(key, "ssh-") && !strings.HasPrefix(key, "ecdsa-") {
		return Result{Exit: powershell.ExitNoKey}
	}
	if !slices.Contains(w.Authorized, key) {
		w.Authorized = append(w.Authorized, key)
	}
	return Result{}
}
