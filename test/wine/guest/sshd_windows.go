package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/windows/svc"
)

const (
	sshService = "sshd"
	sshFolder  = `C:\ProgramData\ssh\`
	sshLog     = sshFolder + `logs\sshd.log`
)

var errDenied = errors.New("key is not in administrators_authorized_keys")

// handler answers the service manager.
type handler struct{}

// Execute implements svc.Handler.
func (handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	f, err := os.OpenFile(sshLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return false, 1
	}
	log.SetOutput(f)
	l, err := listen()
	if err != nil {
		log.Print(err)
		return false, 1
	}
	go serve(l)
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		if r.Cmd == svc.Stop || r.Cmd == svc.Shutdown {
			break
		}
		status <- r.CurrentStatus
	}
	return false, 0
}

// server is a listener with what it greets with.
type server struct {
	net.Listener
	config *ssh.ServerConfig
}

func listen() (*server, error) {
	raw, err := os.ReadFile(sshFolder + "ssh_host_ed25519_key")
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	c := &ssh.ServerConfig{ServerVersion: "SSH-2.0-OpenSSH_for_Windows_9.5", PublicKeyCallback: authorize}
	c.AddHostKey(key)
	l, err := net.Listen("tcp4", ":22")
	return &server{l, c}, err
}

func authorize(m ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
	rest, err := os.ReadFile(sshFolder + "administrators_authorized_keys")
	for err == nil && len(rest) > 0 {
		var key ssh.PublicKey
		if key, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err == nil && bytes.Equal(key.Marshal(), offered.Marshal()) {
			return &ssh.Permissions{}, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", m.User(), errDenied)
}

func serve(s *server) {
	for n := 1; ; n++ {
		c, err := s.Accept()
		if err != nil {
			log.Print(err)
			return
		}
		go connection(n, c, s.config)
	}
}

// connection serves one client. The log has a line for each connection and channel, which tests count.
func connection(n int, c net.Conn, config *ssh.ServerConfig) {
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		log.Printf("connection %d: refused: %v", n, err)
		return
	}
	log.Printf("connection %d: open user=%s", n, conn.User())
	go ssh.DiscardRequests(requests)
	group, err := newGroup()
	if err != nil {
		log.Printf("connection %d: %v", n, err)
		conn.Close()
		return
	}
	var sessions sync.WaitGroup
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		ch, requests, err := offered.Accept()
		if err != nil {
			break
		}
		sessions.Go(func() { session(n, ch, requests, group) })
	}
	group.end()
	sessions.Wait()
	log.Printf("connection %d: closed", n)
}

// session serves one channel, which takes one command or subsystem.
func session(n int, ch ssh.Channel, requests <-chan *ssh.Request, group *group) {
	var work sync.WaitGroup
	for r := range requests {
		var text struct{ Value string }
		known := (r.Type == "exec" || r.Type == "subsystem") && ssh.Unmarshal(r.Payload, &text) == nil
		if known && r.Type == "subsystem" && text.Value != "sftp" {
			known = false
		}
		if r.WantReply {
			_ = r.Reply(known, nil)
		}
		if !known {
			continue
		}
		log.Printf("connection %d: %s %s", n, r.Type, text.Value)
		if r.Type == "exec" {
			work.Go(func() { execute(ch, text.Value, group) })
		} else {
			work.Go(func() { transfer(ch) })
		}
	}
	work.Wait()
}

func execute(ch ssh.Channel, line string, group *group) {
	code := group.run(line, ch, ch, ch.Stderr())
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
	ch.Close()
}

func transfer(ch ssh.Channel) {
	home, err := os.UserHomeDir()
	if err != nil {
		log.Print(err)
	}
	s, err := sftp.NewServer(ch, sftp.WithServerWorkingDirectory(home))
	if err == nil {
		err = s.Serve()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		log.Printf("sftp: %v", err)
	}
	ch.Close()
}
