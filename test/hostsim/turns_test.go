package hostsim

import (
	"encoding/binary"
	"testing"
)

// request is an SFTP request of that type with a body of n bytes.
func request(kind byte, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(n+1))
	return append(append(b, kind), make([]byte, n)...)
}

func TestPackets(t *testing.T) {
	var stream []byte
	stream = append(stream, request(1, 4)...) // INIT
	stream = append(stream, request(3, 40)...)
	for range 130 {
		stream = append(stream, request(typeWrite, 300)...)
	}
	stream = append(stream, request(4, 8)...)
	stream = append(stream, request(typeWrite, 0)...)
	for _, chunk := range []int{1, 3, 7, 304, 305, 306, len(stream)} {
		requests, turns := 0, 0
		p := &packets{request: func(turn bool) {
			requests++
			if turn {
				turns++
			}
		}}
		for rest := stream; len(rest) > 0; {
			n := min(chunk, len(rest))
			p.see(rest[:n])
			rest = rest[n:]
		}
		// 130 WRITEs in a row are three times 64 at most.
		if requests != 134 || turns != 1+1+3+1+1 {
			t.Errorf("in pieces of %d: %d requests, %d turns", chunk, requests, turns)
		}
	}
}

func TestAnswers(t *testing.T) {
	var a answers
	if a.wrote() {
		t.Error("what nobody asked for is no answer")
	}
	a.read(0)
	if a.wrote() {
		t.Error("the end of the input asks nothing")
	}
	a.read(3)
	a.read(3)
	if !a.wrote() {
		t.Error("the first bytes after a question are an answer")
	}
	if a.wrote() {
		t.Error("an answer in two pieces counts once")
	}
}
