//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// config is what the machine is made of; it comes as JSON in the only argument.
type config struct {
	// Root is the folder with Wine, Disk the machine's Wine prefix.
	Root, Disk string
	Hostname   string
	Address    string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("needs its configuration as the only argument")
	}
	var c config
	if err := json.Unmarshal([]byte(os.Args[1]), &c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := enter(c); err != nil {
		return err
	}
	dead := reap()
	fmt.Println("mounted")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "on":
			// wineserver goes into the background once it serves. The first Windows program starts services.exe and every automatic service.
			await(dead, start("wineserver", "-p"))
			start("wine64", "cmd", "/c", "exit")
			fmt.Println("booting")
		case "off":
			// -k ends all programs, writes the registry, and returns when that is done. The kernel ends what is left with process 1.
			await(dead, start("wineserver", "-k"))
			return nil
		}
	}
	// Whoever powered the machine on is gone.
	return nil
}

// enter makes the mounts of the machine and goes into them.
func enter(c config) error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	in := func(name string) string { return filepath.Join(c.Root, name) }
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{c.Disk, in("c"), "", unix.MS_BIND},
		{"/dev", in("dev"), "", unix.MS_BIND | unix.MS_REC},
		{"/sys", in("sys"), "", unix.MS_BIND | unix.MS_REC},
		{"proc", in("proc"), "proc", 0},
		{"tmpfs", in("tmp"), "tmpfs", 0},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	hosts := in("tmp/hosts")
	text := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", c.Address, c.Hostname)
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the hosts file: %w", err)
	}
	if err := unix.Mount(hosts, in("etc/hosts"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the hosts file: %w", err)
	}
	if err := unix.Chroot(c.Root); err != nil {
		return fmt.Errorf("entering %s: %w", c.Root, err)
	}
	return os.Chdir("/")
}

// start starts a program of Wine's and returns its number, 0 when it cannot be started. Its streams lead nowhere: services would inherit them.
func start(name string, args ...string) int {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		return 0
	}
	defer null.Close()
	pid, err := syscall.ForkExec("/usr/lib/wine/"+name, append([]string{name}, args...), &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Env: environment(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "boot: %s: %v\n", name, err)
	}
	return pid
}

func environment() []string {
	return []string{
		"HOME=/root", "TERM=dumb", "PATH=/usr/lib/wine:/usr/sbin:/usr/bin:/sbin:/bin", "WINEPREFIX=/c", "WINEDEBUG=-all",
		"WINEDLLOVERRIDES=mscoree,mshtml=",
	}
}

// reap buries the dead, of which process 1 inherits every orphan, and tells their numbers.
func reap() <-chan int {
	dead := make(chan int, 1024)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			// One signal may stand for several.
			for pid := bury(); pid > 0; pid = bury() {
				select {
				case dead <- pid:
				default: // nobody has asked for a long time
				}
			}
		}
	}()
	return dead
}

// bury returns the number of a process that has ended, 0 or less when there is none.
func bury() int {
	pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	if err != nil {
		return 0
	}
	return pid
}

// await returns when a process has ended, or after ten seconds.
func await(dead <-chan int, pid int) {
	limit := time.After(10 * time.Second)
	for pid != 0 {
		select {
		case d := <-dead:
			if d == pid {
				return
			}
		case <-limit:
			return
		}
	}
}
