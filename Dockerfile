# The operator's image: a static binary, the agent for Windows, and the packed payload beside it.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/windows-machine-operator . \
 && CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags "-s -w" -o /out/wmcb.exe ./cmd/wmcb

FROM scratch
COPY --from=build /out/windows-machine-operator /windows-machine-operator
COPY --from=build /out/wmcb.exe /payload/wmcb.exe
# out/payload is what `make payload` packs.
COPY out/payload /payload
USER 65532:65532
ENTRYPOINT ["/windows-machine-operator"]
