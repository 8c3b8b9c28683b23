package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// SignedIn returns the tokens of a person who has signed in with an issuer: a verified ID token and
// an optional refresh token.
func SignedIn(id, refresh string) (*Token, error) {
	_, claims, err := decodeJWT(id)
	if err != nil || len(id) > maxToken || len(refresh) > maxToken {
		return nil, errors.New("the ID token is not a signed JSON Web Token, or a token is too long")
	}
	var expires int64
	if json.Unmarshal(strictjson.Member(json.RawMessage(claims), "exp"), &expires) != nil {
		return nil, errors.New("the ID token does not expire")
	}
	return &Token{ID: id, Refresh: refresh, Expires: time.Unix(expires, 0)}, nil
}

// RefreshIDToken replaces a person's ID token, like [Client.Refresh]. If the issuer does not return a
// new one, the error is an invalid grant, because the person has to sign in again.
func (c *Client) RefreshIDToken(ctx context.Context, s *Server, own *Credentials, old *Token) (*Token, error) {
	body, err := c.refresh(ctx, s, own, nil, old)
	if err != nil {
		return nil, err
	}
	id, err := readSecret(body, "id_token")
	if err == nil && id == "" {
		return nil, fmt.Errorf("%s returned no ID token: %w", hostOf(s.TokenURL), &RefusedError{Status: http.StatusOK, Code: "invalid_grant"})
	}
	refresh, refreshErr := readSecret(body, "refresh_token")
	if err = errors.Join(err, refreshErr); err != nil {
		return nil, uncertain(err)
	}
	if refresh == "" {
		refresh = old.Refresh
	}
	token, err := SignedIn(id, refresh)
	if err == nil {
		err = samePerson(old.ID, id)
	}
	if err != nil {
		return nil, uncertain(err)
	}
	return token, nil
}

// samePerson returns an error if two ID tokens identify different people.
func samePerson(old, fresh string) error {
	_, a, err := decodeJWT(old)
	if err != nil {
		return err
	}
	_, b, err := decodeJWT(fresh)
	if err != nil {
		return err
	}
	for _, name := range []string{"iss", "sub"} {
		before, _ := a.text(name)
		if after, _ := b.text(name); before == "" || after != before {
			return errors.New("the new ID token identifies another person")
		}
	}
	return nil
}
