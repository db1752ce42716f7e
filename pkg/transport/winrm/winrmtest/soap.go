package winrmtest

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"log"
	"strconv"
	"strings"
)

func quiet() *log.Logger { return log.New(quietLog{}, "", 0) }

// message is an answer around a body.
func message(action, body string) string {
	return `<s:Envelope xml:lang="en-US" xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"` +
		` xmlns:x="http://schemas.xmlsoap.org/ws/2004/09/transfer" xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"` +
		` xmlns:rsp="http://schemas.microsoft.com/wbem/wsman/1/windows/shell" xmlns:p="http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd">` +
		`<s:Header><a:Action>` + action + `</a:Action><a:MessageID>uuid:0</a:MessageID></s:Header><s:Body>` + body + `</s:Body></s:Envelope>`
}

func created(id string) string {
	return `<x:ResourceCreated><a:Address>https://host:5986/wsman</a:Address><a:ReferenceParameters>` +
		`<w:ResourceURI>http://schemas.microsoft.com/wbem/wsman/1/windows/shell/cmd</w:ResourceURI>` +
		`<w:SelectorSet><w:Selector Name="ShellId">` + id + `</w:Selector></w:SelectorSet></a:ReferenceParameters></x:ResourceCreated>`
}

// Fault is a refusal of the service. Its text is in German, as nobody may decide by it.
type Fault struct {
	Code    uint32
	Subcode string
}

// String is the whole answer.
func (f *Fault) String() string {
	return message("http://schemas.dmtf.org/wbem/wsman/1/wsman/fault",
		`<s:Fault><s:Code><s:Value>s:Receiver</s:Value><s:Subcode><s:Value>`+f.Subcode+`</s:Value></s:Subcode></s:Code>`+
			`<s:Reason><s:Text xml:lang="de-DE">Die Anforderung kann nicht verarbeitet werden.</s:Text></s:Reason><s:Detail>`+
			`<f:WSManFault xmlns:f="http://schemas.microsoft.com/wbem/wsman/1/wsmanfault" Code="`+strconv.FormatUint(uint64(f.Code), 10)+`" Machine="host">`+
			`<f:Message>Der WS-Verwaltungsdienst kann die Anforderung nicht verarbeiten.</f:Message></f:WSManFault></s:Detail></s:Fault>`)
}

// part is some output of a command.
type part struct{ stdout, stderr string }

// split cuts output into n parts.
func split(r Result) []part {
	n := max(r.Parts, 1)
	cut := func(s string, i int) string { return s[len(s)*i/n : len(s)*(i+1)/n] }
	var out []part
	for i := range n {
		out = append(out, part{cut(r.Stdout, i), cut(r.Stderr, i)})
	}
	return out
}

func (c *command) send(m *request) (string, *Fault) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(m.Body.Send.Data))
	if err != nil {
		return "", &Fault{Code: 2150858817, Subcode: "w:SchemaValidationError"}
	}
	c.Stdin = append(c.Stdin, b...)
	c.ended = c.ended || m.Body.Send.End == "true"
	return message(ActionSend+"Response", `<rsp:SendResponse/>`), nil
}

// waits reports whether the program reads standard input that has not ended.
func (c *command) waits() bool {
	reads := strings.Contains(c.Line, "powershell.exe") || strings.HasSuffix(c.Line, "--config -")
	return reads && !c.ended
}

// receive answers with the next part of the output, with the end, or with "nothing yet".
func (c *command) receive(id string, run func(Call) Result) (string, *Fault) {
	if !c.started && !c.waits() {
		c.started = true
		if run != nil {
			c.result = run(c.Call)
		}
		c.out = split(c.result)
	}
	if !c.started || c.result.Silent > 0 {
		c.result.Silent--
		return "", &Fault{Code: 2150858793, Subcode: "w:TimedOut"}
	}
	var b strings.Builder
	b.WriteString(`<rsp:ReceiveResponse>`)
	if len(c.out) > 0 {
		for _, s := range []struct{ name, text string }{{"stdout", c.out[0].stdout}, {"stderr", c.out[0].stderr}} {
			fmt.Fprintf(&b, `<rsp:Stream Name="%s" CommandId="%s">%s</rsp:Stream>`, s.name, id, base64.StdEncoding.EncodeToString([]byte(s.text)))
		}
		c.out = c.out[1:]
	}
	if len(c.out) > 0 {
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="http://schemas.microsoft.com/wbem/wsman/1/windows/shell/CommandState/Running"/>`, id)
	} else {
		for _, name := range []string{"stdout", "stderr"} {
			fmt.Fprintf(&b, `<rsp:Stream Name="%s" CommandId="%s" End="true"></rsp:Stream>`, name, id)
		}
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="http://schemas.microsoft.com/wbem/wsman/1/windows/shell/CommandState/Done"><rsp:ExitCode>%d</rsp:ExitCode></rsp:CommandState>`, id, c.result.Exit)
	}
	b.WriteString(`</rsp:ReceiveResponse>`)
	return message(ActionReceive+"Response", b.String()), nil
}

// Escape is text as it stands in XML.
func Escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
