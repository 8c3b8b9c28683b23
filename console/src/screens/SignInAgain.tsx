import { Dialog } from "../components/Dialog";
import { SignInForm } from "./SignIn";

/** A sign-in that ended is made again over the page, so that nothing that was begun there is lost. */
export default function SignInAgain() {
  return (
    <Dialog open onClose={() => {}} stay title="Your session has ended" description="Sign in to continue where you left off.">
      <SignInForm />
    </Dialog>
  );
}
