package winrm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/windowsmachine/operator/pkg/transport"
)

// The commands. Programs are named by their whole path, so that no other of their name in a PATH is found.
const (
	queryService = `C:\Windows\System32\sc.exe query sshd`
	// autostart: the capability leaves the service at manual start. sc.exe wants the blank behind "start=".
	autostart = `C:\Windows\System32\sc.exe config sshd start= auto`
	// startService also has sshd make its folder with the right access list, and its host keys.
	startService = `C:\Windows\System32\sc.exe start sshd`

	// The capability is installed by a task of SYSTEM: Windows Update refuses clients that are logged on over the network with 0x80070005, and a task
	// does not end with our shell. S-1-5-18 is SYSTEM in every language.
	createTask = `C:\Windows\System32\schtasks.exe /Create /F /TN windowsmachine-openssh /RU S-1-5-18 /RL HIGHEST /SC ONCE /ST 00:00 /TR "C:\Windows\System32\dism.exe /Online /Add-Capability /CapabilityName:OpenSSH.Server~~~~0.0.1.0 /NoRestart /Quiet"`
	runTask    = `C:\Windows\System32\schtasks.exe /Run /TN windowsmachine-openssh`
	queryTask  = `C:\Windows\System32\schtasks.exe /Query /TN windowsmachine-openssh /V /FO CSV /NH`
	deleteTask = `C:\Windows\System32\schtasks.exe /Delete /F /TN windowsmachine-openssh`

	// The installer lies where only administrators write, so that nobody swaps it between the check and the start. curl.exe is part of Windows since
	// Server 2019 and takes its options, the address among them, from standard input.
	download  = `C:\Windows\System32\curl.exe --config -`
	hashFile  = `C:\Windows\System32\certutil.exe -hashfile C:\Windows\wmcb\openssh.msi SHA256`
	install   = `C:\Windows\System32\msiexec.exe /i C:\Windows\wmcb\openssh.msi /qn /norestart`
	removeMSI = `del /f /q C:\Windows\wmcb\openssh.msi`

	// sshd refuses the file when others than SYSTEM and Administrators may write it; both by SID, since names are translated.
	protectKeys = `C:\Windows\System32\icacls.exe C:\ProgramData\ssh\administrators_authorized_keys /inheritance:r /grant:r *S-1-5-32-544:F *S-1-5-18:F`
	ownKeys     = `C:\Windows\System32\icacls.exe C:\ProgramData\ssh\administrators_authorized_keys /setowner *S-1-5-32-544`

	// AAAA is how the base64 of every public key begins.
	readEd25519 = `C:\Windows\System32\findstr.exe AAAA C:\ProgramData\ssh\ssh_host_ed25519_key.pub`
	readECDSA   = `C:\Windows\System32\findstr.exe AAAA C:\ProgramData\ssh\ssh_host_ecdsa_key.pub`
	readRSA     = `C:\Windows\System32\findstr.exe AAAA C:\ProgramData\ssh\ssh_host_rsa_key.pub`
)

// showRule and addRule are about the firewall's rule for SSH at a port, which has its number in its name: netsh adds a rule twice otherwise.
func showRule(port int) string {
	n := strconv.Itoa(port)
	return `C:\Windows\System32\netsh.exe advfirewall firewall show rule name=windowsmachine-ssh-` + n
}

func addRule(port int) string {
	n := strconv.Itoa(port)
	return `C:\Windows\System32\netsh.exe advfirewall firewall add rule name=windowsmachine-ssh-` + n + ` dir=in action=allow protocol=TCP localport=` + n
}

// Exit codes and task results.
const (
	exitOK      = 0
	exitNothing = 1 // findstr, netsh, schtasks: nothing found
	// winerror.h
	exitAccessDenied     = 5
	exitAlreadyRunning   = 1056
	exitNoService        = 1060
	exitInstallerBusy    = 1618
	exitRebootInitiated  = 1641
	exitRestartRequired  = 3010
	taskRunning          = 0x41301 // SCHED_S_TASK_RUNNING
	taskHasNotRun        = 0x41303 // SCHED_S_TASK_HAS_NOT_RUN
	taskQueued           = 0x41325 // SCHED_S_TASK_QUEUED
	taskResultColumn     = 6       // HostName, TaskName, Next Run Time, Status, Logon Mode, Last Run Time, Last Result
	installerSizeAllowed = 64 << 20
)

// curlOptions are those for the download, as curl's configuration file has them; a backslash in quotes is doubled.
func curlOptions(address string) []byte {
	return fmt.Appendf(nil, "url = \"%s\"\noutput = \"C:\\\\Windows\\\\wmcb\\\\openssh.msi\"\ncreate-dirs\nfail\nsilent\nlocation\nproto = \"=https\"\nproto-redir = \"=https\"\nmax-filesize = %d\nmax-time = 600\n",
		address, installerSizeAllowed)
}

// taskResult reads the number of the last result in what queryTask prints. Columns have no names there, and their order is the same in every
// language.
func taskResult(printed []byte) (uint32, error) {
	r := csv.NewReader(bytes.NewReader(printed))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err != nil || len(fields) <= taskResultColumn {
		return 0, fmt.Errorf("%w: %w: a task's state has %d columns", transport.ErrDisconnected, errAnswer, len(fields))
	}
	return exitCode(fields[taskResultColumn])
}

var sha256Line = regexp.MustCompile(`^[0-9a-f]{64}$`)

// hashOf finds the hash in what hashFile prints: the line that is nothing but hexadecimal digits, with blanks between bytes in older versions.
func hashOf(printed []byte) (string, error) {
	for line := range strings.Lines(string(printed)) {
		line = strings.ToLower(strings.Join(strings.Fields(line), ""))
		if sha256Line.MatchString(line) {
			return line, nil
		}
	}
	return "", fmt.Errorf("%w: %w: certutil prints no hash", transport.ErrDisconnected, errAnswer)
}

var errHostKey = errors.New("not a line with a public key")

// parseHostKey reads the line of a .pub file.
func parseHostKey(printed []byte) (transport.HostKey, error) {
	f := strings.Fields(string(printed))
	if len(f) < 2 || !keyAlgorithm.MatchString(f[0]) {
		return transport.HostKey{}, errHostKey
	}
	b, err := base64.StdEncoding.DecodeString(f[1])
	if err != nil {
		return transport.HostKey{}, errHostKey
	}
	if !wholeKey(b, f[0]) {
		return transport.HostKey{}, errHostKey
	}
	sum := sha256.Sum256(b)
	return transport.HostKey{Algorithm: f[0], Key: b, Fingerprint: "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])}, nil
}

// wholeKey checks the shape of a key: fields with their length in front, the first of them the algorithm's name (RFC 4253 6.6, RFC 5656 3.1, RFC 8709
// 4). A file that is being written ends within one.
func wholeKey(b []byte, algorithm string) bool {
	want := 3
	if algorithm == "ssh-ed25519" {
		want = 2
	}
	fields := 0
	for ; len(b) >= 4; fields++ {
		n := binary.BigEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) || fields == 0 && string(b[4:4+n]) != algorithm {
			return false
		}
		b = b[4+n:]
	}
	return len(b) == 0 && fields == want
}

var (
	keyAlgorithm = regexp.MustCompile(`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521))$`)
	// plainURL leaves out what curl's configuration and cmd.exe read in their own way.
	plainURL = regexp.MustCompile(`^https://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/@+=-]*)?$`)
)

// check refuses an Opening before anything is sent.
func check(o transport.Opening) error {
	for _, c := range []struct {
		bad bool
		say string
	}{
		{o.Address == "", "Address is empty"},
		{!port(o.Port), "Port is not between 1 and 65535"},
		{o.Port == 5985, "Port 5985 is plain HTTP; first contact is made over HTTPS, which listens at 5986"},
		{!port(o.SSHPort), "SSHPort is not between 1 and 65535"},
		{o.User == "", "User is empty"},
		{o.Password == "" && len(o.ClientCert) == 0, "there is neither a Password nor a ClientCert"},
		{o.Password != "" && len(o.ClientCert) > 0, "there is a Password and a ClientCert; give one of them"},
		{strings.ContainsAny(o.AuthorizedKey, "\r\n"), "AuthorizedKey has several lines"},
		{badKey(o.AuthorizedKey), "AuthorizedKey is not a public key"},
		{(o.InstallerURL == "") != (o.InstallerSHA256 == ""), "InstallerURL and InstallerSHA256 belong together"},
		{o.InstallerURL != "" && badURL(o.InstallerURL), "InstallerURL must be https and hold letters, digits and . _ ~ / @ + = - only"},
		{o.InstallerSHA256 != "" && !sha256Line.MatchString(o.InstallerSHA256), "InstallerSHA256 is not 64 hexadecimal digits in lower case"},
	} {
		if c.bad {
			return fmt.Errorf("%w: %s", transport.ErrOpening, c.say)
		}
	}
	return nil
}

func port(n int) bool { return n > 0 && n < 1<<16 }

func badKey(line string) bool {
	_, err := parseHostKey([]byte(line))
	return err != nil
}

func badURL(s string) bool {
	if !plainURL.MatchString(s) {
		return true
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return true
	}
	if strings.Contains(u.Host, "[") {
		_, err = netip.ParseAddr(u.Hostname())
	}
	return err != nil
}

// hexOf prints a result as Windows' own messages do.
func hexOf(n uint32) string {
	if n < 1<<16 {
		return strconv.FormatUint(uint64(n), 10)
	}
	return "0x" + hex.EncodeToString(binary.BigEndian.AppendUint32(nil, n))
}
