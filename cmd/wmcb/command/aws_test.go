package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// metadataService answers one request a connection, as EC2's does: a token for a PUT, and with it the host name.
func metadataService(name string) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		if address != "169.254.169.254:80" {
			return nil, errors.New("no way to " + address)
		}
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			r, err := http.ReadRequest(bufio.NewReader(there))
			if err != nil {
				return
			}
			status, body := 401, ""
			switch {
			case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
				status, body = 200, "a-token"
			case r.URL.Path == "/latest/meta-data/local-hostname" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "a-token":
				status, body = 200, name
			}
			fmt.Fprintf(there, "HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
		}()
		return here, nil
	}
}

// TestAWSHostname: on AWS the node has the instance's private name.
func TestAWSHostname(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{Dial: metadataService("IP-192-0-2-10.example.internal second.name")}, func(t *testing.T, b *bench) {
		_, errs := b.ok(saidInitialized, b.initArgs("--platform-type", "AWS")...)
		if got := b.service("kubelet").Args; !slices.Contains(got, "--hostname-override=ip-192-0-2-10.example.internal") || !strings.Contains(errs, "tags") {
			t.Errorf("%q\n%s", got, errs)
		}
	})
	silent := func(context.Context, string, string) (net.Conn, error) {
		here, _ := net.Pipe()
		return here, nil
	}
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"no way": func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") },
		"silent": silent,
	} {
		withBench(t, "v1.31.14", "v2.1.4", fake.Options{Dial: dial}, func(t *testing.T, b *bench) {
			if said := b.refused(b.initArgs("--platform-type", "aws")...); !strings.Contains(said, "--hostname-override") {
				t.Errorf("%s: %s", name, said)
			}
			b.ok(saidInitialized, b.initArgs("--platform-type", "aws", "--hostname-override", "win-a")...)
		})
	}
}
