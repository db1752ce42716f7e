package hostsim

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// Shell is the default shell of the machine's SSH server (registry value DefaultShell).
type Shell string

// The shells.
const (
	ShellCmd        Shell = "cmd"
	ShellPowerShell Shell = "powershell"
)

// Options describe a simulated machine. The zero Options are a Windows Server 2022 at a free loopback address with the Containers feature enabled, that
// nobody can log in to.
type Options struct {
	// Hostname is the DNS host name, "WIN-SIM" when empty.
	Hostname string
	// IP and Port are where its SSH server listens; empty and 0 are a free loopback address and a free port.
	IP   string
	Port int
	// AuthorizedKeys may log in as any of Users, Passwords (user to password) as well where password logins are offered.
	AuthorizedKeys []ssh.PublicKey
	Passwords      map[string]string
	// Users are the accounts, compared without regard to case; nil is Administrator.
	Users []string
	// HostKey is the SSH server's key; nil is a new one.
	HostKey ssh.Signer
	// Agents are the wmcb.exe files, by the SHA-256 of what was uploaded, that run the agent, with the version that each
	// reports. Every other file is no valid program. See Agent.
	Agents map[string]string
	// Shell is ShellCmd when empty.
	Shell Shell
	// MaxSessions and MaxAuthTries are sshd_config's: 10 and 6 when 0.
	MaxSessions, MaxAuthTries int
	// OfferPassword and OfferInteractive add methods to publickey; the interactive one fails without a prompt.
	OfferPassword, OfferInteractive bool
	// NoSFTP refuses the SFTP subsystem.
	NoSFTP bool
	// Clock is the time that the machine lives by; nil is the real one. Network delays are real in any case.
	Clock system.Clock
	// ContainersMissing is a machine where the Containers feature is not enabled yet.
	ContainersMissing bool
	// Machine are more options of the modelled Windows; what is named above wins. Zero delays in Timing are short here:
	// 300 ms for a boot, 400 ms for the link.
	Machine fake.Options
	// Trace gets what clients do, when they do it; nil discards it. It must not block, and must not call the Host.
	Trace func(Moment)
	// Logf gets what the machine logs; nil discards it.
	Logf func(format string, args ...any)
}

// Agent returns the entry of Options.Agents for a file's bytes.
func Agent(file []byte) (digest string) {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

func (o Options) withDefaults() Options {
	if o.Hostname == "" {
		o.Hostname = "WIN-SIM"
	}
	if o.Users == nil {
		o.Users = []string{"Administrator"}
	}
	if o.Shell == "" {
		o.Shell = ShellCmd
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = 10
	}
	if o.MaxAuthTries == 0 {
		o.MaxAuthTries = 6
	}
	if o.Trace == nil {
		o.Trace = func(Moment) {}
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// machineOptions are the options of the modelled Windows.
func (o Options) machineOptions(ip string) fake.Options {
	m := o.Machine
	m.Hostname, m.Logf = o.Hostname, o.Logf
	if o.Clock != nil {
		m.Clock = o.Clock
	}
	if m.Adapters == nil {
		m.Adapters = []fake.Adapter{
			{Name: "Ethernet 3", Prefix: "169.254.7.7/16"},
			{Name: "Ethernet", Prefix: ip + "/8", Default: true},
		}
	}
	if m.Features == nil {
		m.Features = map[string]fake.Feature{"Containers": {Enabled: !o.ContainersMissing}, "Microsoft-Hyper-V": {}}
	}
	if m.Timing.Boot == 0 {
		m.Timing.Boot = 300 * time.Millisecond
	}
	if m.Timing.LinkDown == 0 {
		m.Timing.LinkDown = 400 * time.Millisecond
	}
	return m
}
