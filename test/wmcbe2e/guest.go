package wmcbe2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
)

// Where things go on the machine. Below C:\Windows only administrators write.
const (
	remote         = `C:\Windows\wmcb-e2e`
	remoteWMCB     = remote + `\wmcb.exe`
	remoteKubelet  = remote + `\kubelet.exe`
	remoteIgnition = remote + `\worker.ign`
	remoteCNI      = remote + `\cni`
	remoteConfig   = remote + `\cni.conf`
)

const (
	// maxKey bounds the private key's file, in bytes.
	maxKey = 64 << 10
	// maxOutput bounds what is kept of a command's output, in bytes.
	maxOutput = 4 << 20
	// dialPatience bounds the wait for the machine's SSH server, whose user data may still run.
	dialPatience = 10 * time.Minute
)

// guest is the machine, over one SSH connection.
type guest struct {
	conn transport.Conn
	keep *artifacts
	logf func(string, ...any)
	runs int
	// target and hostKey are how the machine was reached.
	target  transport.Target
	hostKey transport.HostKey
}

// connect waits for the machine's SSH server. Its key is trusted as it is, and kept among the artifacts.
func connect(ctx context.Context, o Options, address string, keep *artifacts, logf func(string, ...any)) (*guest, error) {
	key, err := readKey(o.SSHKey)
	if err != nil {
		return nil, err
	}
	g := &guest{keep: keep, logf: logf}
	g.target = transport.Target{
		Address: address, Port: o.Port, User: o.User, PrivateKeys: [][]byte{key},
		Verify: func(k transport.HostKey) error {
			g.hostKey = k
			return keep.write("host-key.txt", []byte(k.Algorithm+" "+k.Fingerprint+"\n"))
		},
	}
	err = until(ctx, dialPatience, func(ctx context.Context) (bool, string, error) {
		var err error
		g.conn, err = (&ssh.Dialer{}).Dial(ctx, g.target)
		if errors.Is(err, transport.ErrKey) {
			return false, "", err
		}
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", g.target, err)
	}
	logf("logged in to %s", g.target)
	return g, nil
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	if len(key) > maxKey {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", path, transport.ErrKey, maxKey)
	}
	return key, nil
}

// upload puts the bootstrapper and what it installs on the machine.
func (g *guest) upload(ctx context.Context, o Options, ignition []byte) error {
	wmcb, err := os.ReadFile(o.WMCB)
	if err != nil {
		return err
	}
	if err := g.put(ctx, remoteWMCB, wmcb); err != nil {
		return err
	}
	if err := g.put(ctx, remoteIgnition, ignition); err != nil {
		return err
	}
	store, err := payload.OpenStore(o.Payload)
	if err != nil {
		return err
	}
	for name, folder := range map[string]string{
		"kubelet.exe": remote, "kube-log-runner.exe": remote, "containerd.exe": remote, "containerd-shim-runhcs-v1.exe": remote,
		"win-overlay.exe": remoteCNI, "host-local.exe": remoteCNI,
	} {
		b, ok := store.Lookup(name)
		if !ok {
			return fmt.Errorf("payload %s: %s: %w", o.Payload, name, payload.ErrUnknownBlob)
		}
		if _, err := g.conn.Put(ctx, folder+`\`+name, b.Size, func() (io.ReadCloser, error) { return store.OpenPlain(b.SHA256) }); err != nil {
			return fmt.Errorf("uploading %s: %w", name, err)
		}
	}
	return nil
}

// put writes a file, also over one of the same size.
func (g *guest) put(ctx context.Context, path string, content []byte) error {
	if err := g.conn.RemoveAll(ctx, path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	_, err := g.conn.Put(ctx, path, int64(len(content)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return fmt.Errorf("uploading %s: %w", path, err)
	}
	return nil
}

// output is what a run of wmcb said.
type output struct {
	exit           int
	stdout, stderr string
}

// last is the last line of standard output.
func (o output) last() string {
	lines := strings.Split(strings.TrimRight(o.stdout, "\r\n"), "\n")
	return strings.TrimRight(lines[len(lines)-1], "\r")
}

// wmcb runs the bootstrapper and keeps what it says.
func (g *guest) wmcb(ctx context.Context, args ...string) (output, error) {
	g.runs++
	stdout, stderr := &limited{}, &limited{}
	began := time.Now()
	exit, err := g.conn.Run(ctx, transport.Command{Path: remoteWMCB, Args: args, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return output{}, fmt.Errorf("wmcb %s: %w", strings.Join(args, " "), err)
	}
	out := output{exit: exit, stdout: stdout.b.String(), stderr: stderr.b.String()}
	g.logf("wmcb %s: exit code %d after %.1f s", args[0], exit, time.Since(began).Seconds())
	text := fmt.Sprintf("wmcb %s\nexit code %d\n--- standard output\n%s\n--- standard error\n%s\n", strings.Join(args, " "), exit, out.stdout, out.stderr)
	return out, g.keep.write(fmt.Sprintf("%02d-%s.txt", g.runs, args[0]), []byte(text))
}

// says runs the bootstrapper, which must succeed with that last line.
func (g *guest) says(ctx context.Context, last string, args ...string) error {
	out, err := g.wmcb(ctx, args...)
	if err != nil {
		return err
	}
	if out.exit != 0 || out.last() != last {
		return fmt.Errorf("%w: exit code %d, last line %q, want 0 and %q; standard error: %s", errSaid, out.exit, out.last(), last, out.stderr)
	}
	return nil
}

var errSaid = errors.New("wmcb has not done what it was asked for")

// limited keeps the begin of an output.
type limited struct{ b bytes.Buffer }

// Write never fails, so that a program that says much is not stopped.
func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), maxOutput-l.b.Len())])
	return len(p), nil
}
