package sshtest

import (
	"encoding/pem"
	"io"
	"net"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Exec is a program that was started.
type Exec struct {
	// Line is the command line.
	Line   string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Cut ends the connection at once.
	Cut func()
}

// UserKey is the private key of UserSigner in OpenSSH's format.
func UserKey() []byte {
	block, err := ssh.MarshalPrivateKey(key(1), "")
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(block)
}

// session serves one channel.
func (s *Server) session(w *wire, ch ssh.Channel, requests <-chan *ssh.Request) {
	defer ch.Close()
	for r := range requests {
		var value struct{ Value string }
		_ = ssh.Unmarshal(r.Payload, &value)
		known := r.Type == "exec" || (r.Type == "subsystem" && value.Value == "sftp" && !s.opts.NoSFTP)
		if r.WantReply {
			_ = r.Reply(known, nil)
		}
		if !known {
			continue
		}
		go ssh.DiscardRequests(requests)
		if r.Type == "exec" {
			s.exec(w, ch, value.Value)
		} else {
			s.sftp(ch)
		}
		return
	}
}

func (s *Server) exec(w *wire, ch ssh.Channel, line string) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
	exit := 0
	if s.opts.Exec != nil {
		exit = s.opts.Exec(&Exec{Line: line, Stdin: ch, Stdout: ch, Stderr: ch.Stderr(), Cut: func() { w.Close() }})
	}
	if exit != NoStatus {
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(exit)}))
	}
}

func (s *Server) sftp(ch ssh.Channel) {
	server := sftp.NewRequestServer(ch, s.Files.handlers())
	_ = server.Serve()
	_ = server.Close()
}

// wire is a server's side of a TCP connection, which can fall silent.
type wire struct {
	net.Conn
	thaw chan struct{}

	mu     sync.Mutex
	frozen bool
	closed bool
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

// hold blocks while the connection is silent and not closed.
func (w *wire) hold() {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	if frozen {
		<-w.thaw
	}
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.hold()
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.hold()
	return w.Conn.Write(p)
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.thaw)
	}
	return w.Conn.Close()
}
