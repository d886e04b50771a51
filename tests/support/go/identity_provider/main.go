// A certified OpenID provider (github.com/zitadel/oidc) on loopback, with the people of its own example.
//
// It prints its issuer. Each line of its input is the address of a dashboard, whose redirects it accepts from then on.
// Everybody has the claim "groups" with their user name; it comes from userinfo, not in the id token.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const clientID, clientSecret = "rebalance-watch", "Zt4q7&w9 Kp2x/Lm5"

type registered struct {
	op.Client
	ended []string
}

func (c registered) PostLogoutRedirectURIs() []string { return c.ended }

type store struct {
	*storage.Storage
	users storage.UserStore
	ended []string
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := s.Storage.GetClientByClientID(ctx, id)
	return registered{client, s.ended}, err
}

func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
	if user := s.users.GetUserByID(subject); user != nil {
		info.AppendClaims("groups", []string{user.Username})
	}
	return err
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := "http://" + listener.Addr().String()
	users := storage.NewUserStore(issuer)
	provider := &store{Storage: storage.NewStorage(users), users: users}
	handler := exampleop.SetupServer(issuer, provider, nil, false)
	go func() { log.Fatal(http.Serve(listener, handler)) }()
	fmt.Println(issuer)
	redirects := []string{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		redirects = append(redirects, lines.Text()+"/login/callback")
		provider.ended = append(provider.ended, lines.Text()+"/login/ended")
		storage.RegisterClients(storage.WebClient(clientID, clientSecret, redirects...))
		fmt.Println("registered")
	}
}
