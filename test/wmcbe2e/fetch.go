package wmcbe2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/pkg/sftp"
	xssh "golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
)

// kept are the files of the machine that are kept, as far as they are there.
func kept() []string {
	return []string{`C:\k\wmcb\journal.jsonl`, `C:\var\log\kubelet\kubelet.log`, `C:\k\log\containerd.log`}
}

var errOtherKey = errors.New("the machine's host key has changed")

// fetch reads files of the machine over a connection of its own, since the transport only sends. What is longer than 4 MiB is cut.
func fetch(ctx context.Context, t transport.Target, key transport.HostKey, paths []string) (map[string][]byte, error) {
	signer, err := ssh.ParseKey(t.PrivateKeys[0])
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(t.Address, strconv.Itoa(t.Port)))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	conn, channels, requests, err := xssh.NewClientConn(raw, t.Address, &xssh.ClientConfig{
		User: t.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(signer)}, HostKeyAlgorithms: []string{key.Algorithm},
		HostKeyCallback: func(_ string, _ net.Addr, k xssh.PublicKey) error {
			if !bytes.Equal(k.Marshal(), key.Key) {
				return errOtherKey
			}
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("logging in to fetch files: %w", err)
	}
	client := xssh.NewClient(conn, channels, requests)
	defer client.Close()
	files, err := sftp.NewClient(client)
	if err != nil {
		return nil, fmt.Errorf("fetching files: %w", err)
	}
	defer files.Close()
	out := map[string][]byte{}
	for _, path := range paths {
		b, err := read(files, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("fetching %s: %w", path, err)
		default:
			out[path] = b
		}
	}
	return out, nil
}

// read reads one file. OpenSSH on Windows takes /C:/folder/file.
func read(files *sftp.Client, path string) ([]byte, error) {
	f, err := files.Open("/" + strings.ReplaceAll(path, `\`, "/"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxOutput))
}
